//! Variants of `notice`, which `shell/test.sh --all` runs.

use std::time::Duration;

use xdrive::host::scripts::Image;

use super::{NOTICE, machine_with, notice};
use crate::host::machine::{Disk, soon};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_full_drive_is_unmounted_in_time() {
    let disk = Disk::new(1024);
    let machine = machine_with(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    machine
        .sh("dd if=/dev/zero of=/v1/work/all bs=1M 2> /dev/null || sync -f /v1")
        .await;
    // The other name of the key, as mocks write it.
    let took = notice(
        &machine,
        r#"{"instance-action":"stop","time":"2030-01-02T03:04:05Z"}"#,
    )
    .await;
    println!(
        "unmounted {:.1} s after the notice, the drive full",
        took.as_secs_f64()
    );
    assert!(disk.is_clean());
    let (action, _) = machine.host.look().await.unwrap().notice.unwrap();
    assert_eq!(action, "stop");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_notice_makes_a_close_hurry_that_is_at_work_already() {
    let disk = Disk::new(2048);
    let machine = machine_with(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    // A commit that takes as long as it may, by a `docker` of the test's.
    machine
        .sh("printf '#!/bin/sh\n[ \"$1\" != commit ] || exec sleep 1000\nexec /usr/bin/docker \"$@\"\n' > /usr/local/bin/docker; \
             chmod 755 /usr/local/bin/docker; docker exec xdrive-demo sh -c 'echo > /new'")
        .await;
    let host = machine.host.clone();
    let closing = tokio::spawn(async move { host.close("test").await });
    soon(async {
        while machine
            .ssh
            .run("pgrep -x sleep -a | grep 1000", b"")
            .await
            .unwrap()
            .status
            != 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let took = notice(&machine, NOTICE).await;
    println!(
        "unmounted {:.1} s after the notice, during a commit",
        took.as_secs_f64()
    );
    assert!(took < Duration::from_secs(40), "{took:?}");
    let closed = closing.await.unwrap().unwrap();
    assert_eq!(
        (closed.committed, closed.unmounted),
        (xdrive::host::Committed::Failed, true)
    );
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn dirty_memory_reaches_the_volume_before_the_notice_is_over() {
    let gib = std::env::var("XDRIVE_TEST_DIRTY_GIB").map_or(1, |gib| gib.parse().unwrap());
    let disk = Disk::new((gib + 1) * 1024);
    let machine = machine_with(&disk).await;
    machine
        .sh(&format!(
            "dd if=/dev/zero of=/v1/work/all bs=1M count={} 2> /dev/null",
            gib << 10
        ))
        .await;
    let dirty = machine.sh("grep ^Dirty: /proc/meminfo").await;
    let took = notice(&machine, NOTICE).await;
    println!(
        "unmounted {:.1} s after the notice, {gib} GiB just written ({})",
        took.as_secs_f64(),
        dirty.trim()
    );
    assert!(disk.is_clean());
}
