//! The arrival at a host where a drive was left running: one request attaches the client and
//! returns the host's state, and a shell there waits for it.

mod wide;

use std::time::Duration;

use xdrive::host::scripts::{ArriveOrder, Arrived, Host, Image};
use xdrive::host::{HostState, Mounted};

use super::machine::{Disk, Machine, soon};

/// Arrives as a laptop does, over a new connection.
async fn arrive(machine: &Machine, client: &str, drive: &str) -> (HostState, Option<Arrived>) {
    let drive = &drive.parse().unwrap();
    let order = ArriveOrder { client, drive };
    let arrived = Host::arrive(machine.login().await, &order).await;
    let (_, contact, arrived) = arrived.unwrap();
    (contact, arrived)
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn who_comes_to_an_unused_drive_leads_at_once_and_changes_nothing_else() {
    let disk = Disk::new(2048);
    let mut machine = Machine::boot().await;
    let (contact, arrived) = arrive(&machine, "s0 t me", "demo").await;
    assert_eq!(contact.mounted, Mounted::Nothing);
    assert!(arrived.is_none(), "there is nothing to lead");

    machine.attach(&disk);
    machine.mount_blank(&disk).await;
    let (_, arrived) = arrive(&machine, "s1 t me", "demo").await;
    let found = arrived.unwrap();
    assert_eq!(
        (&found.container, found.terminal.as_deref()),
        (&None, Some("none"))
    );
    assert!(found.mounted.is_some());
    drop(found);
    soon(async { while !machine.host.look().await.unwrap().clients.is_empty() {} }).await;

    let image = Image::Loaded(machine.load_image().await);
    let container = machine.start(image, &[]).await;
    machine.host.lease(Duration::from_mins(50)).await.unwrap();
    let (contact, arrived) = arrive(&machine, "s2 t me", "demo").await;
    assert_eq!((contact.attached, contact.clients), (None, Vec::new()));
    let Arrived {
        lock: hold,
        mounted,
        container: found,
        terminal,
    } = arrived.unwrap();
    assert_eq!(mounted.unwrap().size, 2048 << 20);
    let found = found.unwrap();
    assert_eq!(
        (found.name, found.address),
        (container.name, container.address)
    );
    assert_eq!(terminal.as_deref(), Some("s2"));
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.attached.as_deref(), Some("s2 t me"));
    let lease = || async { machine.lease_left().await.unwrap() };
    assert!(lease().await > Duration::from_mins(40));

    let (contact, arrived) = arrive(&machine, "s3 t you", "demo").await;
    assert_eq!(contact.attached.as_deref(), Some("s2 t me"));
    assert!(arrived.is_none(), "there is somebody who leads");

    assert!(hold.refresh(Duration::from_mins(15)));
    soon(async { while lease().await > Duration::from_mins(15) {} }).await;
    drop(hold);
    soon(async { while machine.host.look().await.unwrap().attached.is_some() {} }).await;
    let (_, arrived) = arrive(&machine, "s4 t me", "renamed").await;
    assert_eq!(arrived.unwrap().container, None, "it must be made again");
}
