//! The clients attached to a host: one lead, any number of guests, and none whose connection ended.

use std::time::Duration;

use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::Host;
use xdrive::host::{LockOrder, Role};

use super::machine::{Machine, hold, mortal, soon};

/// Waits until `count` clients are attached.
async fn until_clients(machine: &Machine, count: usize) {
    soon(async { while machine.host.look().await.unwrap().clients.len() != count {} }).await;
}

/// Waits until no process of a hold is left on the host.
async fn until_nothing_runs(machine: &Machine) {
    soon(async {
        while machine
            .ssh
            .run("pgrep -f 'session hol[d]|tai[l] -q'", b"")
            .await
            .unwrap()
            .status
            == 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn one_client_leads_until_it_is_gone_however_it_went() {
    let machine = Machine::boot().await;
    let other = Host::contact(machine.login().await).await.unwrap().0;

    let (_, kill) = mortal(&machine, "first at laptop");
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.attached.as_deref(), Some("first at laptop"));
    match hold(&other, "second", Role::Lead, 900).await {
        Err(ScriptError::Busy { owner, .. }) => {
            assert_eq!(owner.as_deref(), Some("first at laptop"));
        }
        other => panic!("{other:?}"),
    }

    kill();
    let free = |client: &'static str| {
        let other = &other;
        soon(async move {
            loop {
                match hold(other, client, Role::Lead, 900).await {
                    Err(ScriptError::Busy { .. }) => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    answer => return answer.unwrap(),
                }
            }
        })
    };
    let second = free("second").await;
    // Released on purpose.
    drop(second);
    drop(free("third").await);
    until_nothing_runs(&machine).await;
    let contact = machine.host.look().await.unwrap();
    assert_eq!((contact.attached, contact.clients), (None, Vec::new()));
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn one_that_leaves_while_its_lease_is_being_set_is_gone() {
    let machine = Machine::boot().await;
    let run = async |script: &str| machine.ssh.run(script, b"").await.unwrap().status;
    let guest = machine.hold("s1 t me", Role::Guest, 900).await.unwrap();
    until_clients(&machine, 1).await;
    // Nobody sets a lease meanwhile.
    run("flock /run/xdrive/lease.lock sleep 300 >/dev/null 2>&1 &").await;
    soon(async { while run("pgrep -xf 'sleep 300'").await != 0 {} }).await;
    assert!(guest.refresh(Duration::from_mins(50)));
    soon(async { while run("pgrep -f 'flock -w 10 [4]'").await != 0 {} }).await;
    assert_eq!(machine.host.leave("s1 t me").await.unwrap().others, 0);
    run("pkill -f 'sleep 30[0]'").await;
    // Its connection is still there.
    until_nothing_runs(&machine).await;
    drop(guest);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_lead_and_two_guests_keep_the_lease_and_see_each_other() {
    let machine = Machine::boot().await;
    let lead = machine.hold("s1 t me", Role::Lead, 1000).await.unwrap();
    until_clients(&machine, 1).await;
    let guest = machine.hold("s2 t you", Role::Guest, 900).await.unwrap();
    let other = machine.hold("s3 t you", Role::Guest, 2000).await.unwrap();
    until_clients(&machine, 3).await;
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.attached.as_deref(), Some("s1 t me"));
    let clients = [
        (Role::Lead, "s1 t me".to_owned()),
        (Role::Guest, "s2 t you".to_owned()),
        (Role::Guest, "s3 t you".to_owned()),
    ];
    assert_eq!(contact.clients, clients);
    let left = || async { machine.lease_left().await.unwrap().as_secs() };
    assert!((1900..=2000).contains(&left().await));

    // A guest makes no lease shorter, nor does the lead while it has guests; alone it does.
    assert!(guest.refresh(Duration::from_mins(50)));
    soon(async { while left().await <= 2000 {} }).await;
    assert!(guest.refresh(Duration::from_secs(10)));
    assert!(lead.refresh(Duration::from_mins(25)));
    // Without a change no event comes, for longer than one takes.
    let end = tokio::time::Instant::now() + Duration::from_secs(3);
    while tokio::time::Instant::now() < end {
        assert!(left().await > 2000);
    }
    drop(other);
    until_clients(&machine, 2).await;
    drop(guest);
    until_clients(&machine, 1).await;
    assert!(lead.refresh(Duration::from_mins(25)));
    soon(async { while left().await > 1500 {} }).await;
    drop(lead);
    until_nothing_runs(&machine).await;
    assert_eq!(machine.host.look().await.unwrap().clients, []);
    assert!(left().await > 1400);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_session_that_comes_back_takes_its_own_place() {
    let machine = Machine::boot().await;
    for role in [Role::Lead, Role::Guest] {
        let mut silent = machine.hold("s1 early me", role, 900).await.unwrap();
        let order = LockOrder {
            client: "s1 late me",
            role,
            lease: Duration::from_mins(15),
        };
        let back = machine.host.hold(&order).await.unwrap();
        soon(async { while silent.event().await.is_some() {} }).await;
        assert!(!silent.refresh(Duration::from_mins(15)));
        until_clients(&machine, 1).await;
        let clients = machine.host.look().await.unwrap().clients;
        assert_eq!(clients, [(role, "s1 late me".to_owned())]);
        drop(back);
        until_nothing_runs(&machine).await;
    }
}
