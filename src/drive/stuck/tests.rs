//! Each way out is a command that can be typed.

use super::*;

#[test]
fn each_command_can_be_typed() {
    let drive: DriveName = "demo".parse().unwrap();
    let instance: InstanceId = "i-1".parse().unwrap();
    let [read, unread]: [SnapshotId; 2] = ["snap-1", "snap-2"].map(|id| id.parse().unwrap());
    let commands = |why| {
        let left = [&read, &unread].map(|id| Thing::Snapshot(id.clone(), 8));
        let stuck = Stuck {
            why,
            left: Left(left.to_vec()),
        };
        stuck.commands(&drive)
    };
    assert_eq!(
        commands(Why::NeverEnds(instance.clone())),
        ["xdrive stop demo"]
    );
    assert_eq!(commands(Why::Unreachable(instance)), ["xdrive stop demo"]);
    let head = Head::Snapshot(read.clone());
    assert_eq!(commands(Why::Mounted(head.clone())), ["xdrive stop demo"]);
    let failed = Why::From(head, "this snapshot failed");
    assert_eq!(commands(failed), ["xdrive list demo -v"]);
    let unreadable = Why::Unreadable(vec![(unread.to_string(), "no kind".to_owned())]);
    assert_eq!(
        commands(unreadable),
        ["xdrive connect demo --from snap-1", "xdrive list demo -v"]
    );
}
