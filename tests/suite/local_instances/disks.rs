mod wide;

use crate::session::site::Site;
use harness::id;

const BY_ID: &str = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_moves_from_instance_to_instance_through_a_snapshot_taken_live() {
    let site = Site::machines();
    let first = site.launch();
    let (volume, copy, snapshot) = (id("vol"), id("vol"), id("snap"));
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &first.id, "/dev/sdf").unwrap();
    site.attach(&volume, &first.id, "/dev/sdf").unwrap();
    let by_id = format!("{BY_ID}{}", volume.replace('-', ""));
    assert_eq!(
        first.run(&format!("blockdev --getsize64 {by_id}_1")),
        (1 << 30).to_string()
    );
    first.run(&format!(
        "mkfs.ext4 -q {by_id} && mount /dev/sdf /mnt && echo first >/mnt/note && sync -f /mnt"
    ));
    site.plane.create_snapshot(&snapshot, &volume).unwrap();
    first.run("echo second >/mnt/note && sync -f /mnt");

    // A copy grown to two GiB, on another instance, while the first still writes.
    site.plane
        .create_volume(&copy, 2, Some(snapshot.as_str().into()))
        .unwrap();
    let second = site.launch();
    site.attach(&copy, &second.id, "/dev/sdf").unwrap();
    assert_eq!(second.run("mount /dev/sdf /mnt && cat /mnt/note"), "first");
    assert_eq!(
        second.run("blockdev --getsize64 /dev/sdf"),
        (2_u64 << 30).to_string()
    );

    first.run("umount /mnt");
    site.plane.detach(&volume, &first.id).unwrap();
    site.plane.detach(&volume, &first.id).unwrap();
    first.run(&format!(
        "! test -e {by_id} && ! test -e /dev/sdf && ! test -e /dev/nvme1n1"
    ));
    assert!(site.attach(&volume, &id("i"), "/dev/sdf").is_err());
    site.attach(&volume, &second.id, "/dev/sdg").unwrap();
    assert_eq!(
        second.run("mkdir /tmp/v && mount /dev/sdg /tmp/v && cat /tmp/v/note"),
        "second"
    );

    // Instances end with their disks mounted: the disks are free afterwards.
    site.plane.clear(&second.id).unwrap();
    site.plane.clear(&first.id).unwrap();
    site.has_no_leaks();
    site.plane.delete_volume(&volume).unwrap();
    site.plane.delete_volume(&volume).unwrap();
    site.plane.delete_snapshot(&snapshot).unwrap();
    assert!(
        site.plane
            .create_volume(&id("vol"), 1, Some(snapshot.as_str().into()))
            .is_err()
    );
}

#[test]
fn a_file_system_for_volumes_that_was_never_finished_is_swept_away() {
    let site = Site::machines();
    for name in ["disks.lock", "disks.xfs.half"] {
        std::fs::write(site.dir().join(name), "").unwrap();
    }
    site.plane.sweep(&[], &[], &[]).unwrap();
    assert!(!site.dir().join("disks.xfs.half").exists());
}
