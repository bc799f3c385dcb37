//! Transitions in time: those that each call begins, and their ends.

use xdrive::local::{Boots, Preset, Settings};

use super::{find, pass, tags, text, texts};
use crate::folder::Folder;

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

#[tokio::test(start_paused = true)]
async fn terminating_deletes_or_frees_each_volume_by_its_own_flag() {
    let folder = Folder::aws();
    let instance = folder.launch();
    let (kept, lost) = (folder.volume(), folder.volume());
    pass(16.0).await;
    for (volume, device) in [(&kept, "/dev/sdf"), (&lost, "/dev/sdg")] {
        let params = [
            ("VolumeId", volume.as_str()),
            ("InstanceId", &instance),
            ("Device", device),
        ];
        folder.call("AttachVolume", &params);
    }
    let mut modify = [
        ("InstanceId", instance.as_str()),
        ("BlockDeviceMapping.1.DeviceName", "/dev/sdg"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
    ];
    folder.call("ModifyInstanceAttribute", &modify);
    let seen = folder.call("DescribeInstances", &[("InstanceId.1", &instance)]);
    let root = text(&seen, "volumeId");
    assert_eq!(
        texts(find(&seen, "blockDeviceMapping").unwrap(), "volumeId").len(),
        3
    );
    folder.call("TerminateInstances", &[("InstanceId.1", &instance)]);
    modify[2].1 = "false";
    assert_eq!(
        folder.refused("ModifyInstanceAttribute", &modify),
        "IncorrectInstanceState"
    );
    pass(30.0).await;
    assert_eq!(folder.volume_state(&kept), "in-use");
    pass(20.0).await;
    assert_eq!(folder.volume_state(&kept), "available");
    assert_eq!(folder.volume_state(&lost), "gone");
    assert_eq!(folder.volume_state(&root), "gone");
    // A paper instance ended when it was due, not when the next call recorded it.
    let again = folder.reopen().unwrap();
    let listed = super::call(&again, "DescribeInstances", &[]).unwrap();
    assert_eq!(
        text(find(&listed, "instanceState").unwrap(), "name"),
        "terminated"
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_detached_while_its_instance_shuts_down_survives() {
    let folder = Folder::aws();
    let (instance, volume) = (folder.launch(), folder.volume());
    pass(16.0).await;
    folder.call(
        "AttachVolume",
        &[
            ("VolumeId", &volume),
            ("InstanceId", &instance),
            ("Device", "/dev/sdf"),
        ],
    );
    folder.call(
        "ModifyInstanceAttribute",
        &[
            ("InstanceId", &instance),
            ("BlockDeviceMapping.1.DeviceName", "/dev/sdf"),
            ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ],
    );
    folder.call("TerminateInstances", &[("InstanceId.1", &instance)]);
    folder.call("DetachVolume", &[("VolumeId", &volume)]);
    pass(60.0).await;
    assert_eq!(folder.volume_state(&volume), "available");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_switches_itself_off_ends_by_its_shutdown_behavior() {
    let folder = Folder::aws();
    let (stops, ends, volume) = (folder.launch(), folder.launch(), folder.volume());
    pass(16.0).await;
    folder.call(
        "ModifyInstanceAttribute",
        &[
            ("InstanceId", &ends),
            ("InstanceInitiatedShutdownBehavior.Value", "terminate"),
        ],
    );
    folder.call(
        "AttachVolume",
        &[
            ("VolumeId", &volume),
            ("InstanceId", &ends),
            ("Device", "/dev/sdf"),
        ],
    );
    folder.local.switch_off(&stops).unwrap();
    folder.local.switch_off(&ends).unwrap();
    assert_eq!(folder.instance_state(&stops), "stopping");
    assert_eq!(folder.instance_state(&ends), "shutting-down");
    pass(60.0).await;
    assert_eq!(folder.instance_state(&stops), "stopped");
    assert_eq!(folder.instance_state(&ends), "terminated");
    assert_eq!(folder.volume_state(&volume), "available");
    let seen = folder.call("DescribeInstances", &[("InstanceId.1", &ends)]);
    assert_eq!(
        text(find(&seen, "stateReason").unwrap(), "code"),
        "Client.InstanceInitiatedShutdown"
    );
    folder.call("TerminateInstances", &[("InstanceId.1", &stops)]);
    pass(60.0).await;
    assert_eq!(folder.instance_state(&stops), "terminated");
}

#[tokio::test(start_paused = true)]
async fn a_spot_request_is_fulfilled_then_ends_with_its_instance() {
    let folder = Folder::aws();
    let mut params = super::launch_params("us-east-1a");
    params.extend([
        ("InstanceMarketOptions.MarketType", "spot"),
        (
            "InstanceMarketOptions.SpotOptions.SpotInstanceType",
            "one-time",
        ),
    ]);
    let launched = folder.call("RunInstances", &params);
    let (id, request) = (
        text(&launched, "instanceId"),
        text(&launched, "spotInstanceRequestId"),
    );
    assert_eq!(text(&launched, "instanceLifecycle"), "spot");
    let status = || {
        let seen = folder.call(
            "DescribeSpotInstanceRequests",
            &[("SpotInstanceRequestId.1", &request)],
        );
        let item = &seen.children[0].children[0];
        (
            text(item, "state"),
            text(find(item, "status").unwrap(), "code"),
        )
    };
    assert_eq!(status(), ("active".to_owned(), "fulfilled".to_owned()));
    pass(20.0).await;
    folder.call("TerminateInstances", &[("InstanceId.1", &id)]);
    pass(60.0).await;
    assert_eq!(
        status(),
        (
            "closed".to_owned(),
            "instance-terminated-by-user".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn things_can_fail_or_hang_when_a_test_wants_them_to() {
    let folder = Folder::aws();
    let (instance, volume, other) = (folder.launch(), folder.volume(), folder.volume());
    pass(16.0).await;
    let snapshot = text(
        &folder.call("CreateSnapshot", &[("VolumeId", &volume)]),
        "snapshotId",
    );
    folder.local.break_down(&snapshot).unwrap();
    let seen = folder.call("DescribeSnapshots", &[("SnapshotId.1", &snapshot)]);
    assert_eq!(text(&seen, "status"), "error");
    folder.local.break_down(&other).unwrap();
    assert_eq!(folder.volume_state(&other), "error");
    folder.call(
        "AttachVolume",
        &[
            ("VolumeId", &volume),
            ("InstanceId", &instance),
            ("Device", "/dev/sdf"),
        ],
    );
    folder.local.stall(&volume).unwrap();
    pass(600.0).await;
    let seen = folder.call("DescribeVolumes", &[("VolumeId.1", &volume)]);
    assert_eq!(
        text(find(&seen, "attachmentSet").unwrap(), "status"),
        "attaching"
    );
    assert!(folder.local.stall("vol-00000000000000009").is_err());
}

#[tokio::test(start_paused = true)]
async fn status_checks_are_initializing_until_an_instance_has_booted_for_a_while() {
    let late = |fails| Settings {
        delays: Some(Preset::Aws),
        stale_reads_ms: Some(0),
        boots: Some([("t3.micro".to_owned(), Boots { seconds: 90, fails })].into()),
        ..Settings::default()
    };
    for (fails, own) in [(false, "ok"), (true, "impaired")] {
        let folder = Folder::new(late(fails));
        let id = folder.launch();
        let all = [("InstanceId.1", &*id), ("IncludeAllInstances", "true")];
        let checks = || {
            let seen = folder.call("DescribeInstanceStatus", &all);
            let check = |name| text(find(&seen, name).unwrap(), "status");
            (check("systemStatus"), check("instanceStatus"))
        };
        let both = |check: &str| (check.to_owned(), check.to_owned());
        assert_eq!(checks(), both("not-applicable"));
        let of_running = folder.call("DescribeInstanceStatus", &[("InstanceId.1", &id)]);
        assert!(find(&of_running, "instanceId").is_none());
        pass(16.0).await;
        assert_eq!(folder.instance_state(&id), "running");
        assert_eq!(checks(), both("initializing"));
        assert!(!folder.local.has_booted(&id).unwrap());
        pass(90.0).await;
        assert_eq!(folder.local.has_booted(&id).unwrap(), !fails);
        assert_eq!(checks(), both("initializing"));
        pass(130.0).await;
        assert_eq!(checks(), ("ok".to_owned(), own.to_owned()));
        let own = [
            ("Filter.1.Name", "instance-status.status"),
            ("Filter.1.Value.1", own),
        ];
        let listed = folder.call("DescribeInstanceStatus", &own);
        assert_eq!(text(&listed, "instanceId"), id);
    }
    let folder = Folder::aws();
    let unknown = [("InstanceId.1", "i-00000000000000009")];
    let refused = folder.refused("DescribeInstanceStatus", &unknown);
    assert_eq!(refused, "InvalidInstanceID.NotFound");
}

#[tokio::test(start_paused = true)]
async fn a_security_group_opens_and_closes() {
    let folder = Folder::aws();
    let made = folder.call(
        "CreateSecurityGroup",
        &[("GroupName", "xdrive"), ("GroupDescription", "ssh")],
    );
    let id = text(&made, "groupId");
    let rule = [
        ("GroupId", id.as_str()),
        ("IpPermissions.1.IpProtocol", "tcp"),
        ("IpPermissions.1.FromPort", "22"),
        ("IpPermissions.1.ToPort", "22"),
        ("IpPermissions.1.IpRanges.1.CidrIp", "192.0.2.7/32"),
    ];
    folder.call("AuthorizeSecurityGroupIngress", &rule);
    assert_eq!(
        folder.refused("AuthorizeSecurityGroupIngress", &rule),
        "InvalidPermission.Duplicate"
    );
    let seen = folder.call("DescribeSecurityGroups", &[("GroupName.1", "xdrive")]);
    assert_eq!(
        text(find(&seen, "ipPermissions").unwrap(), "cidrIp"),
        "192.0.2.7/32"
    );
    let mut params = super::launch_params("us-east-1a");
    params.push(("SecurityGroupId.1", &id));
    let instance = text(&folder.call("RunInstances", &params), "instanceId");
    let this = [("GroupId", id.as_str())];
    assert_eq!(
        folder.refused("DeleteSecurityGroup", &this),
        "DependencyViolation"
    );
    folder.call("RevokeSecurityGroupIngress", &rule);
    assert_eq!(
        folder.refused("RevokeSecurityGroupIngress", &rule),
        "InvalidPermission.NotFound"
    );
    folder.call("TerminateInstances", &[("InstanceId.1", &instance)]);
    pass(60.0).await;
    folder.call("DeleteSecurityGroup", &this);
    assert_eq!(
        folder.refused("DescribeSecurityGroups", &[("GroupId.1", &id)]),
        "InvalidGroup.NotFound"
    );
}
