//! What a host still knows after a reboot: its latch, its watch, and when to switch itself off.

use std::time::Duration;

use xdrive::host::boot::Watch;
use xdrive::host::facts::HostError;
use xdrive::host::scripts::Role;

use super::machine::{Disk, Machine, hold};

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
        Err(HostError::Closing(reason)) => assert_eq!(reason, "it's over"),
        other => panic!("{other:?}"),
    }
    assert!(machine.host.close("again").await.unwrap().unmounted);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_abandoned_host_that_reboots_is_off_when_its_lease_is_over() {
    let mut machine = Machine::boot_with(Duration::from_mins(30), watch()).await;
    machine.host.lease(Duration::from_secs(20)).await.unwrap();
    machine.reboot().await;
    assert_eq!(machine.host.look().await.unwrap().lease, None);
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
