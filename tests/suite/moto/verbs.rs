//! The commands that make, name, note and delete drives without a host, at moto.

use std::process::Command;

use xdrive::clock::Clock;
use xdrive::ec2::{Account, Ec2, SnapshotState};

use super::server::against_moto;
use harness::cloud::{tags, volume_order};
use harness::evidence::may_delete;

/// Runs xdrive where this process's environment points to: its exit code, and what it printed, both ways.
pub(super) fn run_xdrive(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdrive"));
    let output = command.args(words).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).unwrap();
    (output.status.code().unwrap(), printed)
}

/// The same of one that succeeds: what it printed.
fn xdrive(words: &[&str]) -> String {
    let (code, printed) = run_xdrive(words);
    assert_eq!(code, 0, "{words:?}: {printed}");
    printed
}

/// Makes a saved drive `demo` of generation 3.
async fn with_a_drive(ec2: &Ec2) {
    let own = [
        ("Name", "demo"),
        ("xdrive:drive", "demo"),
        ("xdrive:session", "an earlier one"),
        ("xdrive:owner", &ec2.owner().await.unwrap()),
        ("xdrive:base", "0"),
        ("xdrive:generation", "3"),
        ("xdrive:formatted", "1"),
    ];
    let mut tags = tags(&own);
    let order = volume_order("volume", tags.clone());
    let volume = ec2.create_volume(&order).await.unwrap().id;
    tags.insert("xdrive:kind".to_owned(), "clean".to_owned());
    tags.insert("xdrive:op".to_owned(), "op".to_owned());
    ec2.create_snapshot(&volume, &tags).await.unwrap();
    ec2.delete_volume(may_delete(&volume)).await.unwrap();
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_drive_is_forked_noted_renamed_and_deleted() {
    let name = test_name!(a_drive_is_forked_noted_renamed_and_deleted);
    against_moto(name, async |ec2| {
        with_a_drive(&ec2).await;
        let before = ec2.snapshots(&"demo".parse().unwrap()).await.unwrap();
        let forked = xdrive(&["fork", "demo", "new"]);
        assert!(forked.contains("new is a copy of demo@3"), "{forked}");
        let made = ec2.snapshots(&"new".parse().unwrap()).await.unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].state, SnapshotState::Completed);
        assert_eq!(made[0].tags["xdrive:generation"], "3");
        assert_ne!(made[0].id, before[0].id);

        xdrive(&["note", "new", "tried at moto"]);
        xdrive(&["rename", "new", "other"]);
        assert_eq!(ec2.snapshots(&"new".parse().unwrap()).await.unwrap(), []);
        let log = xdrive(&["log", "other"]);
        assert!(log.contains("forked from demo@3"), "{log}");
        assert!(log.contains("tried at moto"), "{log}");

        xdrive(&["delete", "other", "--yes"]);
        assert_eq!(ec2.snapshots(&"other".parse().unwrap()).await.unwrap(), []);
        assert_eq!(
            ec2.snapshots(&"demo".parse().unwrap()).await.unwrap(),
            before
        );
    });
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_drive_is_copied_to_another_region() {
    let name = test_name!(a_drive_is_copied_to_another_region);
    against_moto(name, async |ec2| {
        with_a_drive(&ec2).await;
        let before = ec2.snapshots(&"demo".parse().unwrap()).await.unwrap();
        let copied = xdrive(&["--region", "us-west-2", "copy", "demo"]);
        assert!(
            copied.contains("demo in us-west-2 is a copy of demo@3"),
            "{copied}"
        );
        let west = Account {
            region: Some("us-west-2".to_owned()),
            ..Account::default()
        };
        let west = Ec2::of_account(&west, Clock::system()).await.unwrap();
        let made = west.snapshots(&"demo".parse().unwrap()).await.unwrap();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(made[0].state, SnapshotState::Completed);
        assert_eq!(made[0].tags["xdrive:generation"], "3");
        assert_eq!(
            ec2.snapshots(&"demo".parse().unwrap()).await.unwrap(),
            before
        );
        let log = xdrive(&["--region", "us-west-2", "log", "demo"]);
        assert!(log.contains("demo@3"), "{log}");
    });
}
