//! A host that EC2 takes in its first hour: its volume leaves it at once, and it is not terminated.

use super::fixtures::*;
use crate::drive::hosts::{Client, Contact};
use crate::drive::observed::{Observed, SeenInstance, SeenSnapshot};
use crate::drive::plan::{Done, Goal, Next, Waiting};
use crate::ec2::{AttachmentState, InstanceState, SnapshotState};
use crate::host::{Closed, Mounted};
use crate::ids::Generation;

/// Until when EC2 is left to take the host.
const UNTIL: u64 = NOW + 60;

/// My host with a notice, which has unmounted the drive's volume, of which a snapshot is begun.
fn noticed() -> Observed {
    Observed {
        instances: vec![SeenInstance {
            contact: unmounted(Client::Me, 1),
            spared: Some(at(UNTIL)),
            ..host(1)
        }],
        volumes: vec![on(1, volume(1, 4, 5))],
        snapshots: vec![SeenSnapshot {
            state: SnapshotState::Pending,
            ..snapshot(1, 1, 5)
        }],
        ..nothing()
    }
}

fn parked(seen: &Observed) -> Next {
    next(&Goal::Parked, seen)
}

#[test]
fn its_volume_is_detached_and_the_session_moves_on_without_it() {
    let mut seen = noticed();
    assert_eq!(words(&parked(&seen)), "detach vol-1 from i-1");
    let attachment = seen.volumes[0].attachment.as_mut().unwrap();
    attachment.state = AttachmentState::Detaching;
    assert!(matches!(parked(&seen), Next::Wait(Waiting::Release(_), _)));
    seen.volumes = vec![volume(1, 4, 5)];
    let done = Next::Done(Done::Parked(Some((snap(1), Generation(5)))));
    assert_eq!(parked(&seen), done);
    // The next one is launched beside it, and it is no host of the drive any more.
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
}

#[test]
fn the_end_of_a_session_waits_for_ec2_and_not_for_ever() {
    let mut seen = noticed();
    assert_eq!(words(&saved(&seen)), "detach vol-1 from i-1");
    seen.volumes = vec![volume(1, 4, 5)];
    seen.snapshots[0].state = SnapshotState::Completed;
    assert_eq!(words(&saved(&seen)), "delete vol-1");
    seen.volumes.clear();
    let left = std::time::Duration::from_secs(UNTIL - NOW);
    let taking = Next::Wait(Waiting::Taking(id(1)), left);
    assert_eq!(saved(&seen), taking);
    assert_eq!(next(&Goal::Ended, &seen), taking);
    // EC2 may think better of it.
    seen.instances[0].spared = Some(at(NOW));
    assert_eq!(words(&saved(&seen)), "terminate i-1");
    seen.instances[0].state = InstanceState::ShuttingDown;
    assert!(matches!(saved(&seen), Next::Done(Done::Saved(_))));
}

#[test]
fn a_host_that_was_left_is_never_the_one_to_go_on_with() {
    let mut seen = noticed();
    seen.volumes = vec![volume(1, 4, 5)];
    seen.me.closes.insert(id(1), Closed::Unmounted);
    let launched = jiff::Timestamp::from_second(1000).unwrap();
    seen.instances.push(SeenInstance {
        launched,
        contact: Contact::Unreachable,
        ..host(2)
    });
    let goes_on = |seen: &Observed| {
        let next = ready(seen);
        assert!(matches!(next, Next::Wait(Waiting::Host(_), _)), "{next:?}");
    };
    goes_on(&seen);
    // It does not answer any more.
    seen.instances[0].contact = Contact::Unreachable;
    goes_on(&seen);
    // EC2 has not taken it in time.
    seen.instances[0].spared = None;
    assert_eq!(words(&ready(&seen)), "terminate i-1");
}

#[test]
fn a_volume_that_is_frozen_or_not_known_to_be_unmounted_leaves_with_the_instance() {
    for contact in [
        answers(Client::Me, true, Mounted::Frozen(vol(1))),
        answers(Client::Me, true, Mounted::Nothing),
    ] {
        let mut seen = noticed();
        seen.instances[0].contact = contact;
        assert_eq!(words(&parked(&seen)), "terminate i-1");
    }
}
