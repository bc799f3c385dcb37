//! Variants of `volumes`, which `shell/test.sh --all` runs.

use std::time::{Duration, Instant};

use xdrive::host::MountOrder;
use xdrive::host::facts::{ScriptError, VolumeProblem};

use super::problem;
use crate::host::machine::{Disk, Machine};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_volume_with_the_format_of_a_newer_xdrive_is_left_alone() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    let device = Machine::device(&disk);
    machine
        .sh(&format!(
            "mke2fs -q -t ext4 {device} && mount {device} /mnt && mkdir /mnt/xdrive && \
             echo 99 > /mnt/xdrive/format && umount /mnt"
        ))
        .await;
    assert_eq!(problem(&machine, &disk, false).await, VolumeProblem::Newer);
    assert_eq!(
        machine.sh("mountpoint -q /v1 || echo right").await,
        "right\n"
    );
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_volume_that_never_comes_is_an_error_in_time() {
    let machine = Machine::boot().await;
    let mut order = Disk::new(1).order(1, true);
    order.wait = Duration::from_secs(1);
    let began = Instant::now();
    let answer = machine.host.mount(&order).await;
    assert!(
        matches!(answer, Err(ScriptError::NoDevice(_))),
        "{answer:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_name_finds_a_disk_only_where_no_volume_has_a_serial_number_and_of_its_size() {
    let mut machine = Machine::boot().await;
    let [drive, other] = [Disk::new(1024), Disk::new(512)];
    let mut order = drive.order(1, true);
    order.wait = Duration::from_secs(1);
    let absent = async |machine: &Machine, order: &MountOrder, node: &str| {
        let before = machine.sh(&format!("cksum < {node}")).await;
        let answer = machine.host.mount(order).await;
        assert!(
            matches!(answer, Err(ScriptError::NoDevice(_))),
            "{answer:?}"
        );
        assert_eq!(machine.sh(&format!("cksum < {node}")).await, before);
    };
    // Another disk has the name, and is blank: its size differs. Without a size the name proves
    // nothing.
    machine.attach_as("/dev/xvdf", &other);
    absent(&machine, &order, "/dev/xvdf").await;
    machine.sh("mv /dev/xvdf /dev/xvdb").await;
    machine.attach_as("/dev/xvdf", &drive);
    let unknown = MountOrder {
        size: None,
        ..order.clone()
    };
    absent(&machine, &unknown, "/dev/xvdf").await;
    // If any volume has a serial number the name proves nothing.
    let numbered = Disk::new(64);
    machine.attach(&numbered);
    absent(&machine, &order, "/dev/xvdf").await;
    machine.sh("rm /dev/disk/by-id/* /dev/nvme*").await;
    // A link may be another volume's name.
    machine
        .sh("mv /dev/xvdf /dev/real && ln -s real /dev/xvdf")
        .await;
    absent(&machine, &order, "/dev/real").await;
    machine.sh("mv -f /dev/real /dev/xvdf").await;

    let mounted = machine.host.mount(&order).await.unwrap();
    assert!(mounted.formatted);
    assert_eq!(machine.sh("findmnt -n -o SOURCE /v1").await, "/dev/xvdf\n");
    machine.host.close("test").await.unwrap();
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_image_without_ext4s_programs_gets_them_or_what_is_missing_is_reported() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine
        .sh("mkdir /kept && cd /usr/sbin && mv mke2fs e2fsck dumpe2fs resize2fs /kept")
        .await;
    let boot = "sh /var/lib/cloud/instance/boothooks/part-001";
    let manager = |script: &str| {
        format!("printf '#!/bin/sh\n{script}\n' > /usr/bin/dnf && chmod 755 /usr/bin/dnf && {boot}")
    };
    // No package can be installed: neither by this package manager, nor by Debian's without a
    // network.
    let nothing = "echo no such package >&2; exit 1";
    machine
        .sh(&format!("rm -f /usr/bin/apt-get && {}", manager(nothing)))
        .await;
    let error = machine.host.mount(&disk.order(1, true)).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("has no mke2fs"), "{error}");
    assert!(error.contains("no such package"), "{error}");

    machine
        .sh(&manager(
            "sleep 1; mv /kept/mke2fs /kept/e2fsck /kept/dumpe2fs /kept/resize2fs /usr/sbin",
        ))
        .await;
    let mounted = machine.host.mount(&disk.order(1, true)).await.unwrap();
    assert!(mounted.formatted);
    machine.host.close("test").await.unwrap();
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_says_how_much_room_its_drive_has_as_long_as_it_has_it_and_once_it_is_closed() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    assert_eq!(machine.host.look().await.unwrap().room, None);
    let first = machine.host.mount(&disk.order(1, true)).await.unwrap();
    let first = first.room.unwrap();
    assert_eq!((first.bytes, first.inodes), (1 << 30, 1 << 16));
    assert!(
        (900 << 20..1 << 30).contains(&first.free_bytes),
        "{first:?}"
    );
    assert!((65_000..1 << 16).contains(&first.free_inodes), "{first:?}");
    // Unwritten data counts.
    machine
        .sh("head -c 200M /dev/zero >/v1/work/some && cd /v1/work && seq 100 | xargs touch")
        .await;
    let then = machine.host.look().await.unwrap().room.unwrap();
    let taken = first.free_bytes - then.free_bytes;
    assert!((200 << 20..210 << 20).contains(&taken), "{taken}");
    // Docker starts meanwhile.
    let made = first.free_inodes - then.free_inodes;
    assert!((101..1000).contains(&made), "{made}");
    let closed = machine.host.close("test").await.unwrap();
    let left = closed.room.unwrap();
    assert!(
        left.free_bytes.abs_diff(then.free_bytes) < 10 << 20,
        "{left:?}"
    );
    // A later close reports the same.
    assert_eq!(machine.host.close("test").await.unwrap().room, Some(left));
    assert_eq!(machine.host.look().await.unwrap().room, None);
}

/// Makes the disk an ext4 that has these files.
fn fill(disk: &Disk, files: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    disk.format_with(folder.path());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn the_files_of_an_adopted_volume_are_moved_whole_and_a_cut_off_move_goes_on() {
    let mount = ("xdrive/mounts", "rw:v1:/v1\n");
    let cuts: [&[(&str, &str)]; 4] = [
        &[
            ("notes", "old"),
            ("docker/a", "store"),
            ("work/b", "own"),
            ("xdrive/c", "x"),
        ],
        &[
            ("notes", "old"),
            ("xdrive-adopting/v1/docker/a", "store"),
            ("work/b", "own"),
            ("xdrive-adopting/v1/xdrive/c", "x"),
        ],
        &[
            ("xdrive-adopted/v1/notes", "old"),
            ("xdrive-adopted/v1/docker/a", "store"),
            ("xdrive-adopted/v1/work/b", "own"),
            ("xdrive-adopted/v1/xdrive/c", "x"),
            mount,
        ],
        &[
            ("work/v1/notes", "old"),
            ("work/v1/docker/a", "store"),
            ("work/v1/work/b", "own"),
            ("work/v1/xdrive/c", "x"),
            mount,
        ],
    ];
    for files in cuts {
        let disk = Disk::new(64);
        fill(&disk, files);
        let mut machine = Machine::boot().await;
        machine.attach(&disk);
        let mounted = machine.host.mount(&disk.order(2, false)).await.unwrap();
        assert_eq!(mounted.source, None);
        // dockerd, which has been started, has a store of its own.
        let seen = "cd /v1/work/v1 && cat notes docker/a work/b xdrive/c && \
                    cat /v1/xdrive/mounts && ls -A . /v1/work && ls -A /v1 && test ! -e /v1/docker/a";
        assert_eq!(
            machine.sh(seen).await,
            "oldstoreownxrw:v1:/v1\n.:\ndocker\nnotes\nwork\nxdrive\n\n\
             /v1/work:\nv1\ndocker\nlost+found\nwork\nxdrive\n",
            "{files:?}"
        );
        // From then on it is a drive like any other.
        machine.sh("echo new > /v1/work/v1/new").await;
        assert!(machine.host.close("test").await.unwrap().unmounted);
        drop(machine);
        let mut next = Machine::boot().await;
        next.attach(&disk);
        next.host.mount(&disk.order(3, false)).await.unwrap();
        assert_eq!(
            next.sh("cat /v1/work/v1/new; ls /v1/work").await,
            "new\nv1\n"
        );
    }
}

/// The fault: the mke2fs of Amazon Linux (1.46) leaves the inode tables to the kernel, which wrote a
/// sixty-fourth of the volume as zeros after the mount, for the first snapshot to hold.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn inode_tables_that_mke2fs_leaves_unwritten_the_kernel_leaves_unwritten() {
    let disk = Disk::new(2048);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    let old = "cd /usr/sbin && mv mke2fs mke2fs.new && cat > mke2fs << 'PROGRAM'
#!/bin/sh
case \"$*\" in *prezeroed*) exit 1 ;; esac
exec /usr/sbin/mke2fs.new \"$@\"
PROGRAM
chmod 755 mke2fs";
    machine.sh(old).await;
    machine.host.mount(&disk.order(1, true)).await.unwrap();
    // The kernel begins within 5 s of the mount (ext4's li_wait_mult and start delay).
    tokio::time::sleep(Duration::from_secs(10)).await;
    machine.sh("sync -f /v1").await;
    let device = Machine::device(&disk);
    let zeroed = format!("dumpe2fs {device} 2> /dev/null | grep -c ITABLE_ZEROED || :");
    assert_eq!(machine.sh(&zeroed).await, "0\n");
}
