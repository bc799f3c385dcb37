//! Variants of `closing`, which `shell/test.sh --all` runs.

use crate::host::machine::{Disk, Machine};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn programs_that_still_use_the_drive_are_ended_also_in_their_own_mount_namespace() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    machine
        .sh("(cd /v1/work; exec setsid sleep 1000) > /dev/null 2>&1 < /dev/null &")
        .await;
    machine
        .sh("setsid unshare --mount --propagation private \
             sh -c 'while sleep 0.1; do date > /v1/work/late; done' > /dev/null 2>&1 < /dev/null & \
             until [ -e /v1/work/late ]; do sleep 0.02; done")
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert!(closed.unmounted);
    // No program writes any more: the device can be opened exclusively.
    let device = Machine::device(&disk);
    machine.sh(&format!("e2fsck -fn {device}")).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_drive_that_a_power_off_unmounted_is_closed_once_nobody_has_it_elsewhere() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    machine
        .sh("setsid unshare --mount --propagation private \
             sh -c 'while sleep 0.1; do date > /v1/work/late; done' > /dev/null 2>&1 < /dev/null & \
             until [ -e /v1/work/late ]; do sleep 0.02; done; \
             systemctl stop docker.socket docker.service; umount /v1")
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert!(closed.unmounted);
    let device = Machine::device(&disk);
    machine.sh(&format!("e2fsck -fn {device}")).await;
}
