//! Volumes whose size and speed are changed: when that holds, how often it may be, and what a machine sees.

use std::process::Command;

use super::real::Real;
use super::{pass, text};
use crate::folder::Folder;
use crate::local_instances::until;

/// The state, the progress and the new size of a volume's last modification.
fn modification(folder: &Folder, volume: &str) -> [String; 3] {
    let found = folder.call("DescribeVolumesModifications", &[("VolumeId.1", volume)]);
    ["modificationState", "progress", "targetSize"].map(|name| text(&found, name))
}

/// The size and the speed of a volume.
fn shape(folder: &Folder, volume: &str) -> [String; 3] {
    let found = folder.call("DescribeVolumes", &[("VolumeId.1", volume)]);
    ["size", "iops", "throughput"].map(|name| text(&found, name))
}

fn modify(folder: &Folder, volume: &str, more: &[(&str, &str)]) -> Result<(), (String, String)> {
    let params = [&[("VolumeId", volume)], more].concat();
    let answer = folder.try_call("ModifyVolume", &params);
    answer
        .map(drop)
        .map_err(|error| (error.code, error.message))
}

/// An empty volume of 8 GiB that is available.
async fn available(folder: &Folder) -> String {
    let volume = folder.volume();
    pass(5.0).await;
    volume
}

#[tokio::test(start_paused = true)]
async fn a_volume_has_its_new_size_while_the_rest_is_optimized() {
    let folder = Folder::aws();
    let volume = available(&folder).await;
    let none = [("VolumeId.1", &*volume)];
    assert_eq!(
        folder.refused("DescribeVolumesModifications", &none),
        "InvalidVolumeModification.NotFound"
    );
    modify(&folder, &volume, &[("Size", "16"), ("Throughput", "500")]).unwrap();
    assert_eq!(modification(&folder, &volume), ["modifying", "0", "16"]);
    assert_eq!(shape(&folder, &volume), ["8", "3000", "125"]);
    // What is snapshotted now has the former size.
    let snapshot = folder.call("CreateSnapshot", &[("VolumeId", &volume)]);
    assert_eq!(text(&snapshot, "volumeSize"), "8");
    pass(7.0).await;
    assert_eq!(modification(&folder, &volume), ["optimizing", "0", "16"]);
    assert_eq!(shape(&folder, &volume), ["16", "3000", "500"]);
    pass(900.0).await;
    assert_eq!(modification(&folder, &volume), ["optimizing", "50", "16"]);
    let (code, message) = modify(&folder, &volume, &[("Size", "17")]).unwrap_err();
    assert_eq!(code, "IncorrectModificationState");
    assert!(
        message.ends_with("modification state OPTIMIZING"),
        "{message}"
    );
    pass(1000.0).await;
    assert_eq!(modification(&folder, &volume), ["completed", "100", "16"]);
    let pages = [("MaxResults", "5"), ("Filter.1.Name", "modification-state")];
    let with = |state| [&pages[..], &[("Filter.1.Value.1", state)]].concat();
    let found = folder.call("DescribeVolumesModifications", &with("completed"));
    assert_eq!(text(&found, "volumeId"), volume);
    let found = folder.call("DescribeVolumesModifications", &with("failed"));
    assert_eq!(super::texts(&found, "volumeId"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_modified_four_times_a_day_and_never_made_smaller() {
    let folder = Folder::aws();
    let volume = available(&folder).await;
    for size in ["9", "10", "11", "12"] {
        modify(&folder, &volume, &[("Size", size)]).unwrap();
        pass(3600.0).await;
    }
    let (code, message) = modify(&folder, &volume, &[("Size", "13")]).unwrap_err();
    assert_eq!(code, "VolumeModificationRateExceeded");
    assert!(message.contains("Wait until "), "{message}");
    pass(20.0 * 3600.0).await;
    for (more, code) in [
        (&[("Size", "11")][..], "InvalidParameterValue"),
        (&[("Size", "65537")], "InvalidParameterValue"),
        (&[("Iops", "80000")], "InvalidParameterValue"),
        (&[("Throughput", "1000")], "InvalidParameterValue"),
        (
            &[("VolumeType", "gp2"), ("Iops", "3000")],
            "InvalidParameterCombination",
        ),
        (&[], "MissingParameter"),
    ] {
        let refused = modify(&folder, &volume, more).unwrap_err();
        assert_eq!(refused.0, code, "{more:?}: {}", refused.1);
    }
    modify(&folder, &volume, &[("Size", "13")]).unwrap();
    assert_eq!(
        modify(&folder, "vol-0123456789abcdef0", &[("Size", "9")])
            .unwrap_err()
            .0,
        "InvalidVolume.NotFound"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_size_is_billed_from_the_call_on() {
    let folder = Folder::aws();
    let volume = available(&folder).await;
    let tags = [
        ("ResourceId.1", &*volume),
        ("Tag.1.Key", "xdrive:drive"),
        ("Tag.1.Value", "demo"),
    ];
    folder.call("CreateTags", &tags);
    pass(3595.0).await;
    modify(&folder, &volume, &[("Size", "80")]).unwrap();
    pass(3600.0).await;
    folder.call("DeleteVolume", &[("VolumeId", &volume)]);
    let billed = folder.local.bill("demo").unwrap().disks;
    let hours = [31.0, 30.0, 28.0, 29.0].map(|days| 88.0 * 0.08 / (days * 24.0));
    assert!(
        hours.iter().any(|hour| (billed - hour).abs() < 1e-6),
        "{billed}, {hours:?}"
    );
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and a machine tree"]
fn a_machine_has_the_larger_disk_in_the_middle_of_its_use() {
    let real = Real::new();
    let (instance, volume) = (real.launch(), real.volume());
    real.attach(&volume, &instance);
    // By the file that it serves.
    let size = || {
        let listed = Command::new("losetup")
            .args(["-l", "-n", "-O", "NAME,BACK-FILE"])
            .output()
            .unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let device = listed
            .lines()
            .find(|line| line.contains(&volume))?
            .split(' ')
            .next()?
            .to_owned();
        let bytes = Command::new("blockdev")
            .args(["--getsize64", &device])
            .output()
            .unwrap();
        String::from_utf8(bytes.stdout)
            .unwrap()
            .trim()
            .parse::<u64>()
            .ok()
    };
    assert_eq!(size(), Some(1 << 30));
    real.call("ModifyVolume", &[("VolumeId", &volume), ("Size", "2")]);
    until("it is larger", || {
        let found = real.call("DescribeVolumes", &[("VolumeId.1", &volume)]);
        text(&found, "size") == "2"
    });
    assert_eq!(size(), Some(2 << 30));
    // Its own disk is part of the machine.
    let own = [
        ("Filter.1.Name", "attachment.device"),
        ("Filter.1.Value.1", "/dev/xvda"),
    ];
    let root = text(&real.call("DescribeVolumes", &own), "volumeId");
    real.call("ModifyVolume", &[("VolumeId", &root), ("Size", "40")]);
    until("it is larger", || {
        let found = real.call("DescribeVolumes", &[("VolumeId.1", &root)]);
        text(&found, "size") == "40"
    });
    // A volume that nothing has, too.
    real.call("TerminateInstances", &[("InstanceId.1", &instance)]);
    until("it is free", || real.volume_state(&volume) == "available");
    real.call("ModifyVolume", &[("VolumeId", &volume), ("Size", "3")]);
    until("it is larger", || {
        let found = real.call("DescribeVolumes", &[("VolumeId.1", &volume)]);
        text(&found, "size") == "3"
    });
    let snapshot = real.call("CreateSnapshot", &[("VolumeId", &volume)]);
    assert_eq!(text(&snapshot, "volumeSize"), "3");
    real.call("DeleteVolume", &[("VolumeId", &volume)]);
    let id = text(&snapshot, "snapshotId");
    real.call("DeleteSnapshot", &[("SnapshotId", &id)]);
}
