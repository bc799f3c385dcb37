//! Off the host and no further, and from there to the next host.

use super::fixtures::*;
use crate::drive::hosts::{Client, Contact, HostView};
use crate::drive::observed::{Attempt, Observed, SeenInstance, SeenSnapshot};
use crate::drive::plan::{Done, Goal, Next};
use crate::drive::tags::SnapshotKind;
use crate::ec2::{AttachmentState, InstanceState, SnapshotState};
use crate::host::Mounted;
use crate::ids::Generation;

fn parked(seen: &Observed) -> Next {
    next(&Goal::Parked, seen)
}

/// My host, closed, with the drive's volume still attached.
fn closed() -> Observed {
    Observed {
        instances: vec![SeenInstance {
            contact: answers(Client::Me, true, Mounted::Nothing),
            ..host(1)
        }],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    }
}

fn pending(number: u8, generation: u64) -> SeenSnapshot {
    SeenSnapshot {
        state: SnapshotState::Pending,
        ..snapshot(number, 1, generation)
    }
}

#[test]
fn parking_is_close_snapshot_terminate_and_the_volume_stays() {
    let mut seen = closed();
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Volume(vol(1)));
    assert_eq!(words(&parked(&seen)), "close the drive on i-1");
    let mut seen = closed();
    assert_eq!(words(&parked(&seen)), "snapshot vol-1");
    seen.snapshots = vec![pending(1, 5)];
    assert_eq!(words(&parked(&seen)), "terminate i-1");
    let done = Next::Done(Done::Parked(Some((snap(1), Generation(5)))));
    for state in [InstanceState::ShuttingDown, InstanceState::Terminated] {
        seen.instances[0].state = state;
        assert_eq!(parked(&seen), done);
    }
    // Whole and free is what the save would delete.
    seen.volumes = vec![volume(1, 4, 5)];
    seen.snapshots = vec![snapshot(1, 1, 5)];
    assert_eq!(parked(&seen), done);
    assert_eq!(words(&saved(&seen)), "delete vol-1");
}

#[test]
fn a_host_that_ec2_interrupts_is_closed_with_others_attached() {
    let mut seen = closed();
    seen.instances[0].contact = Contact::Reached(HostView {
        client: Client::Me,
        guests: 2,
        closing: false,
        noticed: false,
        mounted: Mounted::Volume(vol(1)),
        unmounted: None,
    });
    assert_eq!(words(&parked(&seen)), "close the drive on i-1");
    assert_eq!(words(&saved(&seen)), "busy: i-1");
}

#[test]
fn the_volume_of_a_vanished_host_is_snapshotted_as_soon_as_it_is_free() {
    let mut seen = closed();
    seen.instances[0].state = InstanceState::ShuttingDown;
    seen.instances[0].contact = Contact::NotAsked;
    assert_eq!(words(&parked(&seen)), "wait: Release(VolumeId(\"vol-1\"))");
    seen.instances[0].state = InstanceState::Terminated;
    seen.volumes = vec![volume(1, 4, 5)];
    assert_eq!(words(&parked(&seen)), "snapshot vol-1");
}

#[test]
fn a_parked_drive_goes_on_with_its_volume_where_that_is() {
    let mut seen = closed();
    seen.instances[0].state = InstanceState::ShuttingDown;
    seen.snapshots = vec![pending(1, 5)];
    let release = "wait: Release(VolumeId(\"vol-1\"))";
    assert_eq!(words(&ready(&seen)), release);
    seen.volumes = vec![volume(1, 4, 5)];
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
    seen.instances = vec![host(2)];
    seen.me.closed = Some((vol(1), Generation(5)));
    assert_eq!(words(&ready(&seen)), "announce generation 6 on vol-1");
    seen.volumes = vec![volume(1, 4, 6)];
    seen.me.raised = Some((vol(1), Generation(6)));
    assert_eq!(words(&ready(&seen)), "attach vol-1 to i-2");
    // Its own snapshot of before, whole by now, changes nothing.
    seen.snapshots = vec![snapshot(1, 1, 5)];
    seen.volumes = vec![held(2, AttachmentState::Attached, volume(1, 4, 6))];
    assert_eq!(words(&ready(&seen)), "mount vol-1");
}

#[test]
fn snapshots_of_earlier_rounds_are_no_failed_ones() {
    let attempt = |number: u8| Attempt {
        volume: vol(1),
        op: format!("op-{number}"),
        kind: SnapshotKind::Clean,
        at: at(NOW - 1000),
    };
    let mut seen = closed();
    seen.volumes = vec![on(1, volume(1, 4, 8))];
    seen.snapshots = vec![snapshot(1, 1, 5), snapshot(2, 1, 6), snapshot(3, 1, 7)];
    seen.me.attempts = vec![attempt(1), attempt(2), attempt(3)];
    assert_eq!(words(&parked(&seen)), "snapshot vol-1");
    // Three that came to nothing are.
    seen.snapshots.clear();
    assert!(words(&parked(&seen)).starts_with("stuck:"));
}
