//! From volume to drive: volumes that are formatted, repaired or grown, and those refused
//! unchanged.

mod wide;

use xdrive::host::Mounted;
use xdrive::host::facts::{ScriptError, VolumeProblem};

use super::machine::{Disk, Machine};

async fn problem(machine: &Machine, disk: &Disk, blank: bool) -> VolumeProblem {
    match machine.host.mount(&disk.order(1, blank)).await {
        Err(ScriptError::WrongVolume { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

async fn checksum(machine: &Machine, disk: &Disk) -> String {
    machine
        .sh(&format!("cksum < {}", Machine::device(disk)))
        .await
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_blank_volume_becomes_a_drive_and_stays_one() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    let first = machine.host.mount(&disk.order(1, true)).await.unwrap();
    assert!(first.formatted);
    assert_eq!(first.source, None);
    assert_eq!(first.size, 1 << 30);
    machine
        .sh("test -d /v1/work -a -d /v1/docker && echo kept > /v1/work/file")
        .await;
    assert_eq!(machine.sh("cat /v1/xdrive/generation").await.trim(), "1");

    let again = machine.host.mount(&disk.order(1, true)).await.unwrap();
    assert_eq!(again.uuid, first.uuid);
    assert!(!again.formatted);
    let other = Disk::new(1024);
    machine.attach(&other);
    let second = machine.host.mount(&other.order(1, true)).await;
    assert!(
        matches!(second, Err(ScriptError::Busy { .. })),
        "{second:?}"
    );

    let (_, contact) = xdrive::host::scripts::Host::contact(machine.ssh.clone())
        .await
        .unwrap();
    assert_eq!(contact.mounted, Mounted::Volume(disk.volume.clone()));
    assert!(machine.host.close("test").await.unwrap().unmounted);

    let mut next = Machine::boot().await;
    drop(machine);
    next.attach(&disk);
    let mounted = next.host.mount(&disk.order(2, false)).await.unwrap();
    assert_eq!(mounted.uuid, first.uuid);
    assert_eq!(next.sh("cat /v1/xdrive/generation").await.trim(), "2");
    assert_eq!(next.sh("cat /v1/work/file").await, "kept\n");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn nothing_is_formatted_without_leave_or_over_anything() {
    let mut machine = Machine::boot().await;
    let [blank, head, tail, middle, swap] = [(); 5].map(|()| Disk::new(64));
    for disk in [&blank, &head, &tail, &middle, &swap] {
        machine.attach(disk);
    }
    let write = |disk: &Disk, mib: u32| {
        format!(
            "printf x | dd of={} bs=1M seek={mib} conv=notrunc 2>/dev/null",
            Machine::device(disk)
        )
    };
    machine.sh(&write(&head, 0)).await;
    machine.sh(&write(&tail, 63)).await;
    machine
        .sh(&format!("mkswap {}", Machine::device(&swap)))
        .await;
    for (disk, leave, expected) in [
        (&blank, false, VolumeProblem::Foreign),
        (&head, true, VolumeProblem::HalfMade),
        (&tail, true, VolumeProblem::HalfMade),
        (&swap, true, VolumeProblem::HalfMade),
        (&swap, false, VolumeProblem::Foreign),
    ] {
        let before = checksum(&machine, disk).await;
        assert_eq!(problem(&machine, disk, leave).await, expected);
        assert_eq!(checksum(&machine, disk).await, before);
    }
    // As after an mkfs that was cut off: a superblock without the rest.
    let device = Machine::device(&middle);
    machine
        .sh(&format!(
            "mke2fs -q -t ext4 {device} && dd if=/dev/zero of={device} bs=4k seek=1 count=3000 conv=notrunc 2>&1"
        ))
        .await;
    assert_eq!(
        problem(&machine, &middle, true).await,
        VolumeProblem::HalfMade
    );
    assert_eq!(
        problem(&machine, &middle, false).await,
        VolumeProblem::Damaged
    );
    let nothing_is_mounted = machine.sh("mountpoint -q /v1 || echo right").await;
    assert_eq!(nothing_is_mounted, "right\n");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_file_system_is_mended_and_grown_on_the_way_in() {
    let disk = Disk::new(512);
    let mut machine = Machine::boot().await;
    disk.grow(1024);
    machine.attach(&disk);
    let device = Machine::device(&disk);
    // Made small, and left as a crash leaves it: journal to replay, one block count wrong.
    machine
        .sh(&format!(
            "mke2fs -q -t ext4 {device} 512M && debugfs -w -R 'ssv free_blocks_count 7' {device} && \
             debugfs -w -R 'ssv state 0' {device}"
        ))
        .await;
    let mounted = machine.host.mount(&disk.order(3, false)).await.unwrap();
    assert!(!mounted.formatted);
    let kib: u64 = machine
        .sh("df -k --output=size /v1 | tail -1")
        .await
        .trim()
        .parse()
        .unwrap();
    assert!(kib > 900 << 10, "{kib} KiB");
    machine.host.close("test").await.unwrap();
    machine.sh(&format!("e2fsck -fn {device}")).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn dirty_memory_is_limited_by_the_volume_and_by_the_memory() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    let limit = "cat /proc/sys/vm/dirty_bytes";
    let mut order = disk.order(1, true);
    let mounted = machine.host.mount(&order).await.unwrap();
    assert_eq!(mounted.dirty_bytes, Some(64 << 20));
    assert_eq!(machine.sh(limit).await, format!("{}\n", 64 << 20));
    order.dirty_bytes = 1 << 60;
    let memory = "sed -n 's/^MemTotal: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo";
    let kib: u64 = machine.sh(memory).await.trim().parse().unwrap();
    let mounted = machine.host.mount(&order).await.unwrap();
    assert_eq!(mounted.dirty_bytes, Some(kib * 1024 / 10));
    assert_eq!(machine.sh(limit).await, format!("{}\n", kib * 1024 / 10));
    // If the kernel's limit cannot be set, the drive is mounted all the same, and the facts have no
    // limit.
    machine
        .sh("mount -o remount,bind,ro /proc/sys/vm/dirty_bytes")
        .await;
    let mounted = machine.host.mount(&order).await.unwrap();
    assert_eq!(mounted.dirty_bytes, None);
}
