//! Things in time: what each call sets in motion, and when it is over.

use super::{Folder, find, pass, tags, text, texts};

#[tokio::test(start_paused = true)]
async fn an_instance_is_pending_then_runs_then_shuts_down_then_stays_listed_for_an_hour() {
    let folder = Folder::aws();
    let id = folder.launch();
    assert_eq!(folder.instance_state(&id), "pending");
    pass(14.0).await;
    assert_eq!(folder.instance_state(&id), "pending");
    pass(2.0).await;
    assert_eq!(folder.instance_state(&id), "running");
    let answer = folder.call("TerminateInstances", &[("InstanceId.1", &id)]);
    assert_eq!(texts(&answer, "name"), ["shutting-down", "running"]);
    pass(30.0).await;
    assert_eq!(folder.instance_state(&id), "shutting-down");
    pass(11.0).await;
    assert_eq!(folder.instance_state(&id), "terminated");
    pass(3500.0).await;
    assert_eq!(folder.instance_state(&id), "terminated");
    pass(100.0).await;
    assert_eq!(
        folder.refused("DescribeInstances", &[("InstanceId.1", &id)]),
        "InvalidInstanceID.NotFound"
    );
    let all = folder.call("DescribeInstances", &[]);
    assert!(find(&all, "instanceId").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_drive_lives_through_volume_snapshot_and_volume() {
    let folder = Folder::aws();
    let instance = folder.launch();
    let volume = folder.volume();
    assert_eq!(folder.volume_state(&volume), "creating");
    pass(16.0).await;
    assert_eq!(folder.volume_state(&volume), "available");
    let attached = [
        ("VolumeId", volume.as_str()),
        ("InstanceId", &instance),
        ("Device", "/dev/sdf"),
    ];
    assert_eq!(
        text(&folder.call("AttachVolume", &attached), "status"),
        "attaching"
    );
    assert_eq!(folder.volume_state(&volume), "in-use");
    pass(4.0).await;
    let seen = folder.call("DescribeVolumes", &[("VolumeId.1", &volume)]);
    assert_eq!(
        text(find(&seen, "attachmentSet").unwrap(), "status"),
        "attached"
    );
    let answer = folder.call(
        "CreateSnapshot",
        &[
            ("VolumeId", &volume),
            ("TagSpecification.1.ResourceType", "snapshot"),
            ("TagSpecification.1.Tag.1.Key", "xdrive:generation"),
            ("TagSpecification.1.Tag.1.Value", "1"),
        ],
    );
    let snapshot = text(&answer, "snapshotId");
    assert_eq!(text(&answer, "status"), "pending");
    assert_eq!(tags(&answer)["xdrive:generation"], "1");
    let detach = [("VolumeId", volume.as_str())];
    assert_eq!(
        text(&folder.call("DetachVolume", &detach), "status"),
        "detaching"
    );
    pass(4.0).await;
    assert_eq!(folder.volume_state(&volume), "available");
    let restore = [
        ("AvailabilityZone", "us-east-1b"),
        ("SnapshotId", snapshot.as_str()),
    ];
    assert_eq!(folder.refused("CreateVolume", &restore), "IncorrectState");
    pass(46.0).await;
    let restored = folder.call("CreateVolume", &restore);
    assert_eq!(text(&restored, "size"), "8");
    assert_eq!(text(&restored, "snapshotId"), snapshot);
    folder.call("DeleteVolume", &detach.map(|(_, id)| ("VolumeId", id)));
    assert_eq!(folder.volume_state(&volume), "deleting");
    pass(4.0).await;
    assert_eq!(folder.volume_state(&volume), "gone");
}
