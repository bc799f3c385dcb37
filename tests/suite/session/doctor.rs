//! `xdrive doctor` on the EC2 in a folder.

use xdrive::local::Fault;

use super::paper::{count, paper, plant, traced, with_snapshot};

#[test]
fn doctor_asks_who_calls_once_and_tries_the_rights_that_have_no_dry_run_by_reading() {
    let site = paper();
    let ended = traced(&site, &["doctor"]).unfolded();
    let letting_in =
        "?  rights         SendSSHPublicKey: it cannot be tried without letting a key in";
    ended
        .is(0)
        .prints("ok  clock")
        .prints(" ?  spot role      no spot request yet")
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
}

fn allowed(told: &str) -> &str {
    let mut lines = told.lines();
    lines.find(|line| line.starts_with("ok  rights")).unwrap()
}
