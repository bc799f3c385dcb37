//! Variants of `disks`, which `shell/test.sh --all` runs.

use xdrive::local::plane::{Machine, PlaneError};

use crate::session::site::Site;
use harness::id;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn on_xen_only_the_name_says_which_volume_a_disk_is() {
    let site = Site::machines();
    let machine = Machine {
        instance_type: "t2.medium".into(),
        ..site.machine("")
    };
    let up = site.plane.launch(&machine).unwrap();
    let host = site.reach(machine.instance, up);
    let disks =
        || host.run("ls -d /dev/xvd* /dev/sd* /dev/nvme* /dev/disk/by-id/* 2>/dev/null || true");
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    for _ in 0..2 {
        site.attach(&volume, &host.id, "/dev/sdf").unwrap();
        assert_eq!(disks(), "/dev/xvdf");
    }
    host.run("mkfs.ext4 -q /dev/xvdf && mount /dev/xvdf /mnt");
    assert!(matches!(
        site.plane.detach(&volume, &host.id),
        Err(PlaneError::Busy)
    ));
    host.run("umount /mnt");
    site.plane.detach(&volume, &host.id).unwrap();
    assert_eq!(disks(), "");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_disk_in_use_is_not_pulled_out() {
    let site = Site::machines();
    let host = site.launch();
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    let busy = || matches!(site.plane.detach(&volume, &host.id), Err(PlaneError::Busy));

    host.run("mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt");
    assert!(busy());
    assert!(matches!(
        site.plane.delete_volume(&volume),
        Err(PlaneError::Busy)
    ));
    // Mounted in a mount namespace of its own, as a container has it.
    let sleeps = "until pgrep -xf 'sleep 600'; do sleep 0.02; done";
    host.run(&format!(
        "systemd-run -q --unit=holder unshare --mount sleep 600; {sleeps}; umount /mnt"
    ));
    assert!(busy());
    host.run("systemctl kill -s KILL holder; systemctl reset-failed holder 2>/dev/null; true");
    crate::local_instances::until("a free disk", || {
        !host
            .run("grep -c /dev/nvme1n1 /proc/*/mountinfo 2>/dev/null | grep -v ':0' || true")
            .contains(':')
    });
    // Open, though not mounted.
    host.run(&format!(
        "systemd-run -q --unit=reader sh -c 'exec 3</dev/nvme1n1; sleep 600'; {sleeps}"
    ));
    assert!(busy());
    host.run("test -b /dev/nvme1n1 && systemctl stop reader");
    site.plane.detach(&volume, &host.id).unwrap();
    host.run("! test -e /dev/nvme1n1");
}

#[test]
#[ignore = "needs root (loop devices)"]
fn a_full_disk_leaves_no_half_snapshot() {
    let site = Site::small(400);
    let (volume, snapshot) = (id("vol"), id("snap"));
    site.plane.create_volume(&volume, 1, None).unwrap();
    let ballast = site.dir().join("ballast");
    let error = std::io::copy(
        &mut std::io::repeat(1),
        &mut std::fs::File::create(&ballast).unwrap(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    for _ in 0..2 {
        assert!(matches!(
            site.plane.create_snapshot(&snapshot, &volume),
            Err(PlaneError::Full(_))
        ));
    }
    assert!(matches!(
        site.plane.create_volume(&id("vol"), 1, None),
        Err(PlaneError::Full(_))
    ));
    std::fs::remove_file(ballast).unwrap();
    assert!(
        site.plane
            .create_volume(&id("vol"), 1, Some(snapshot.as_str().into()))
            .is_err(),
        "there is no such snapshot"
    );
    site.plane.create_snapshot(&snapshot, &volume).unwrap();
    site.plane
        .create_volume(&id("vol"), 1, Some(snapshot.as_str().into()))
        .unwrap();
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (loop devices)"]
fn a_sweep_keeps_what_is_recorded_and_removes_the_rest() {
    let site = Site::machines();
    let (kept, lost, snapshot) = (id("vol"), id("vol"), id("snap"));
    for volume in [&kept, &lost] {
        site.plane.create_volume(volume, 1, None).unwrap();
    }
    site.plane.create_snapshot(&snapshot, &kept).unwrap();
    site.plane.sweep(&[], &[&kept], &[&snapshot]).unwrap();
    site.plane.create_snapshot(&id("snap"), &kept).unwrap();
    site.plane
        .create_volume(&id("vol"), 1, Some(snapshot.as_str().into()))
        .unwrap();
    assert!(site.plane.create_snapshot(&id("snap"), &lost).is_err());
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (loop devices)"]
fn many_calls_at_once_share_the_disks() {
    let site = Site::machines();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (volume, snapshot) = (id("vol"), id("snap"));
                site.plane.create_volume(&volume, 1, None).unwrap();
                site.plane.create_snapshot(&snapshot, &volume).unwrap();
                site.plane.delete_volume(&volume).unwrap();
            });
        }
    });
    site.has_no_leaks();
}

/// The fault: a volume had the sectors of the host's disk, and an ext4 of small blocks did not mount.
#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_volume_has_sectors_of_512_bytes_also_where_the_hosts_disk_has_larger_ones() {
    let site = Site::machines();
    let store = site.dir().join("disks.xfs");
    let file = std::fs::File::create(&store).unwrap();
    file.set_len(4 << 30).unwrap();
    let mut make = std::process::Command::new("mkfs.xfs");
    make.args(["-q", "-s", "size=4096", "-m", "reflink=1"]);
    assert!(make.arg(&store).status().unwrap().success());
    let host = site.launch();
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    let small = "mke2fs -q -t ext4 -b 1024 /dev/sdf && mount /dev/sdf /mnt && umount /mnt";
    assert_eq!(
        host.run(&format!("{small} && blockdev --getss /dev/sdf")),
        "512"
    );
    site.plane.detach(&volume, &host.id).unwrap();
}
