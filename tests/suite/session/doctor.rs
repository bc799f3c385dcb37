//! `xdrive doctor` on the EC2 in a folder.

use xdrive::ec2::{Modified, Speed};
use xdrive::local::Fault;

use super::failures::Account;
use super::simulated::{count, in_the_cloud, paper, plant, traced, with_snapshot, with_volume};

#[test]
fn doctor_asks_who_calls_once_and_tries_the_rights_that_have_no_dry_run_by_reading() {
    let site = paper();
    let ended = traced(&site, &["doctor"]).unfolded();
    let letting_in =
        "?  rights         SendSSHPublicKey: it cannot be tried without letting a key in";
    ended
        .is(0)
        .prints("ok  clock")
        .prints("GetSnapshotBlock, ")
        .prints("ListSnapshotBlocks, ")
        .prints(letting_in);
    assert!(!allowed(&ended.stdout).contains("SnapshotBlock"));
    assert_eq!(count(&ended, "GetCallerIdentity"), 1);

    with_snapshot(&site, &[]);
    let ended = traced(&site, &["doctor"]).unfolded();
    let rights = allowed(&ended.is(0).stdout).to_owned();
    assert!(rights.contains("ListSnapshotBlocks"), "{rights}");
    assert_eq!(count(&ended, "SendSSHPublicKey"), 0);

    let denied = |call: &str| {
        let message = "You are not authorized to perform this operation.";
        let mut fault = Fault::new(call, 403, "AccessDeniedException", message);
        fault.times = 2;
        plant(&site, fault);
    };
    denied("ListSnapshotBlocks");
    traced(&site, &["doctor"])
        .unfolded()
        .is(77)
        .prints("no  right          ListSnapshotBlocks: You are not authorized")
        .prints("GetSnapshotBlock: it needs what ListSnapshotBlocks answers");
    denied("ListSnapshotBlocks");
    let colored = site.run(&["--color", "always", "doctor"]);
    let hint = "\u{1b}[1;36mhint:\u{1b}[0m xdrive --local policy";
    colored.is(77).prints(hint);
}

#[test]
fn whether_volumes_may_be_changed_is_tried_and_changes_none() {
    let site = paper();
    let volume = with_volume(&site, "us-east-1a", &[]);
    let ended = traced(&site, &["doctor"]).unfolded();
    let rights = allowed(&ended.is(0).stdout).to_owned();
    for call in ["DescribeVolumesModifications", "ModifyVolume"] {
        assert!(rights.contains(call), "{rights}");
    }
    let changed = in_the_cloud(&site, async |ec2| {
        ec2.volume_modification(&volume, None, Speed::default())
            .await
            .unwrap()
    });
    assert_eq!(changed, Modified::Not);
}

#[test]
fn lines_fit_a_terminal_and_a_folder_is_not_asked_for_what_only_accounts_have() {
    let account = Account::new();
    let ended = account.run(&["doctor"]);
    ended
        .is(0)
        .prints(" ?  spot role      no spot request yet")
        .prints("`aws iam create-service-linked-role --aws-service-name \\\n")
        .prints("\n                   spot.amazonaws.com`\n");
    let home = account.home();
    let of_home = |line: &&str| line.contains(home.to_str().unwrap());
    for line in ended.stdout.lines().filter(|line| !of_home(line)) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let site = paper();
    let ended = site.run(&["doctor"]);
    for of_accounts in ["spot role", "quota", "NoSuchResource"] {
        let is_there = ended.is(0).stdout.contains(of_accounts);
        assert!(!is_there, "{of_accounts}:\n{}", ended.stdout);
    }
}

fn allowed(report: &str) -> &str {
    let mut lines = report.lines();
    lines.find(|line| line.starts_with("ok  rights")).unwrap()
}
