//! The state that a host keeps over a reboot: its latch, its watch, and when to switch itself off.

use std::time::Duration;

use xdrive::host::boot::Watch;
use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::{Host, Image};
use xdrive::host::{Mounted, Role};

use crate::host::machine::{Disk, Machine, hold, soon};

fn watch() -> Watch {
    Watch {
        poll: Duration::from_secs(1),
        ..Watch::default()
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_that_closed_does_not_open_after_a_reboot() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot_with(Duration::from_mins(30), watch()).await;
    machine.attach(&disk);
    machine.mount_blank(&disk).await;
    machine.host.close("it's over").await.unwrap();
    machine.reboot().await;
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.closing.as_deref(), Some("it's over"));
    match hold(&machine.host, "s t me", Role::Lead, 900).await {
        Err(ScriptError::Closing(reason)) => assert_eq!(reason, "it's over"),
        other => panic!("{other:?}"),
    }
    // It unmounted the volume before the reboot, and does not report that: nothing was mounted
    // since.
    assert_eq!(contact.whole, None);
    let closed = machine.host.close("again").await.unwrap();
    assert!(closed.unmounted);
    assert_eq!(closed.whole, None);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_that_is_reset_while_it_closes_says_that_it_unmounted_nothing() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot_with(Duration::from_mins(30), watch()).await;
    machine.attach(&disk);
    machine.mount_blank(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    machine
        .sh("docker exec -d xdrive-demo sh -c 'trap \"\" TERM HUP; echo > /work/on; while :; do sleep 1; done'; \
             until [ -e /v1/work/on ]; do sleep 0.02; done")
        .await;
    let caller = Host::contact(machine.login().await).await.unwrap().0;
    let close = tokio::spawn(async move { caller.close("test").await });
    soon(async { while machine.host.look().await.unwrap().closing.is_none() {} }).await;
    assert!(!machine.is_unmounted().await);
    machine.reset().await;
    close.abort();
    // The watch closes it again, without anything to unmount.
    soon(async { while !machine.is_unmounted().await {} }).await;
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.closing.as_deref(), Some("test"));
    assert_eq!((contact.whole, contact.mounted), (None, Mounted::Nothing));
    let closed = machine.host.close("again").await.unwrap();
    assert_eq!((closed.unmounted, closed.whole), (true, None));
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_abandoned_host_that_reboots_is_off_when_its_lease_is_over() {
    let mut machine = Machine::boot_with(Duration::from_mins(30), watch()).await;
    machine.host.lease(Duration::from_secs(20)).await.unwrap();
    machine.reboot().await;
    assert_eq!(machine.lease_left().await, None);
    // Half a minute at least, for a client that comes back.
    let took = machine.until_off(Duration::from_secs(80)).await;
    println!(
        "off {:.1} s after a reboot under a lease of 20 s",
        took.as_secs_f64()
    );
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_client_that_comes_back_after_a_reboot_keeps_the_host() {
    let mut machine = Machine::boot_with(Duration::from_mins(30), watch()).await;
    machine.host.lease(Duration::from_secs(20)).await.unwrap();
    machine.reboot().await;
    let _hold = machine.hold("s t me", Role::Lead, 900).await.unwrap();
    let timers =
        "systemctl list-units --plain --no-legend 'xdrive-*.timer' | cut -d . -f 1 | cut -c 1-11";
    assert_eq!(machine.sh(timers).await, "xdrive-off-\n");
    assert_eq!(
        machine.sh("systemctl is-active xdrive-watch").await,
        "active\n"
    );
}
