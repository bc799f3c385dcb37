//! The way out, and the way back.

use proptest::prelude::*;

use super::fixtures::*;
use super::promises::worlds;
use crate::drive::hosts::Client;
use crate::drive::observed::{Attempt, Observed, SeenInstance, SeenSnapshot, SeenVolume};
use crate::drive::plan::{Done, Goal, Next, Step};
use crate::drive::tags::SnapshotKind;
use crate::ec2::{AttachmentState, InstanceState, SnapshotState};
use crate::host::{Closed, Mounted};
use crate::ids::{Generation, SessionId};

/// My host with the drive mounted.
fn mounted() -> Observed {
    let host = SeenInstance {
        contact: answers(Client::Me, false, Mounted::Volume(vol(1))),
        ..host(1)
    };
    Observed {
        instances: vec![host],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    }
}

fn closed() -> Observed {
    let mut seen = mounted();
    seen.instances[0].contact = answers(Client::Me, true, Mounted::Nothing);
    seen.me.unmounted = Some((vol(1), Generation(5)));
    seen
}

fn kind_of(next: &Next) -> Option<SnapshotKind> {
    let Next::Do(steps) = next else { return None };
    steps.iter().find_map(|step| match step {
        Step::Snapshot { kind, .. } => Some(*kind),
        _ => None,
    })
}

#[test]
fn the_way_out_is_close_snapshot_terminate_wait_delete() {
    for plan in [saved, plan_end] {
        assert_eq!(words(&plan(&mounted())), "close the drive on i-1");

        let mut seen = closed();
        assert_eq!(words(&plan(&seen)), "snapshot vol-1");
        assert_eq!(kind_of(&plan(&seen)), Some(SnapshotKind::Clean));

        let pending = SeenSnapshot {
            state: SnapshotState::Pending,
            ..snapshot(1, 1, 5)
        };
        seen.snapshots = vec![pending];
        assert_eq!(words(&plan(&seen)), "terminate i-1");

        seen.instances[0].state = InstanceState::ShuttingDown;
        assert_eq!(words(&plan(&seen)), "wait: Copy(SnapshotId(\"snap-1\"))");

        seen.instances[0].state = InstanceState::Terminated;
        seen.volumes[0] = volume(1, 4, 5);
        assert_eq!(words(&plan(&seen)), "wait: Copy(SnapshotId(\"snap-1\"))");

        seen.snapshots[0].state = SnapshotState::Completed;
        assert_eq!(words(&plan(&seen)), "delete vol-1");

        seen.volumes.clear();
        let done = Done::Saved(Some((snap(1), Generation(5))));
        assert_eq!(plan(&seen), Next::Done(done));
    }
}

#[test]
fn a_close_that_was_cut_short_is_done_again_although_nobody_can_hold_the_host_any_more() {
    let mut seen = mounted();
    seen.instances[0].contact = answers(Client::Nobody, true, Mounted::Volume(vol(1)));
    for plan in [saved, plan_end] {
        assert_eq!(words(&plan(&seen)), "close the drive on i-1");
    }
}

#[test]
fn a_never_attached_volume_is_the_way_back() {
    let spare = SeenVolume {
        snapshot: Some(snap(1)),
        ..volume(2, 4, 4)
    };
    let seen = Observed {
        instances: vec![host(1)],
        volumes: vec![spare],
        snapshots: vec![snapshot(1, 1, 4)],
        ..nothing()
    };
    assert_eq!(words(&plan_end(&seen)), "delete vol-2; terminate i-1");
}

#[test]
fn the_way_back_touches_nothing_of_anybody_else() {
    let mut survivor = volume(2, 4, 5);
    survivor.session = SessionId("other".into());
    let seen = Observed {
        volumes: vec![survivor],
        instances: vec![others(3)],
        ..nothing()
    };
    assert_eq!(words(&plan_end(&seen)), "done: Saved(None)");
}

#[test]
fn the_way_back_waits_for_what_a_lost_answer_may_have_made() {
    let mut seen = nothing();
    seen.me.unsure = Some(at(NOW - 5));
    assert_eq!(words(&plan_end(&seen)), "wait: Settle");
}

#[test]
fn a_new_drive_that_nobody_was_handed_is_not_saved_but_deleted() {
    let blank = SeenVolume {
        formatted: false,
        ..volume(1, 0, 1)
    };
    let mut seen = closed();
    seen.volumes = vec![on(1, blank.clone())];
    assert_eq!(words(&plan_end(&seen)), "terminate i-1");
    seen.instances.clear();
    seen.volumes = vec![blank];
    assert_eq!(words(&saved(&seen)), "delete vol-1");
}

#[test]
fn a_volume_whose_host_vanished_is_saved_as_crashed() {
    let mut survivor = volume(1, 4, 5);
    survivor.session = SessionId("other".into());
    let mut seen = Observed {
        volumes: vec![survivor],
        ..nothing()
    };
    assert_eq!(words(&saved(&seen)), "snapshot vol-1");
    assert_eq!(kind_of(&saved(&seen)), Some(SnapshotKind::Crashed));
    // The session that raised it a moment ago may be about to mount it.
    seen.volumes[0].since = at(NOW - 5);
    assert_eq!(words(&saved(&seen)), "wait: Settle");
}

#[test]
fn a_volume_is_never_snapshotted_while_somebody_may_mount_it() {
    let mut free = volume(1, 4, 5);
    free.session = SessionId("other".into());
    let starting = SeenInstance {
        contact: crate::drive::hosts::Contact::Unreachable,
        ..others(2)
    };
    let seen = Observed {
        volumes: vec![free],
        instances: vec![starting],
        ..nothing()
    };
    assert_eq!(
        words(&saved(&seen)),
        "wait: OtherStarting(InstanceId(\"i-2\"))"
    );
}

#[test]
fn a_drive_in_use_is_saved_from_elsewhere_only_when_that_is_asked_for() {
    let host = SeenInstance {
        contact: answers(somebody(), false, Mounted::Volume(vol(1))),
        ..others(1)
    };
    let seen = Observed {
        instances: vec![host],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    assert_eq!(words(&saved(&seen)), "busy: i-1");
    let forced = next(&Goal::Saved { even_if_used: true }, &seen);
    assert_eq!(words(&forced), "close the drive on i-1");
}

#[test]
fn an_attempt_whose_answer_was_lost_is_looked_for_before_another_is_made() {
    let mut seen = closed();
    let attempt = |seconds| Attempt {
        volume: vol(1),
        op: "op-1".into(),
        kind: SnapshotKind::Clean,
        at: at(seconds),
    };
    seen.me.attempts = vec![attempt(NOW - 5)];
    assert_eq!(words(&saved(&seen)), "wait: Settle");
    let mut found = seen.clone();
    found.snapshots = vec![SeenSnapshot {
        state: SnapshotState::Pending,
        ..snapshot(1, 1, 5)
    }];
    assert_eq!(words(&saved(&found)), "terminate i-1");
    seen.me.attempts = vec![attempt(NOW - 60)];
    assert_eq!(words(&saved(&seen)), "snapshot vol-1");
}

#[test]
fn a_checkpoint_saves_nothing() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        ..nothing()
    };
    seen.snapshots = vec![SeenSnapshot {
        kind: SnapshotKind::Checkpoint,
        ..snapshot(1, 1, 5)
    }];
    assert_eq!(words(&saved(&seen)), "snapshot vol-1");
}

#[test]
fn a_raised_and_detached_volume_is_left_while_another_client_may_mount_it() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        ..nothing()
    };
    seen.me.raised = Some((vol(1), Generation(5)));
    assert_eq!(words(&plan_end(&seen)), "snapshot vol-1");
    // Another one may have raised it to the same generation.
    seen.instances = vec![others(2)];
    assert_eq!(plan_end(&seen), Next::Busy(id(2)));
}

#[test]
fn an_attachment_on_its_way_is_waited_for_before_the_close() {
    let mut seen = mounted();
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Nothing);
    seen.volumes = vec![held(1, AttachmentState::Attaching, volume(1, 4, 5))];
    seen.volumes[0].since = at(NOW - 1);
    assert_eq!(words(&saved(&seen)), "wait: Attaching(VolumeId(\"vol-1\"))");
}

#[test]
fn an_abandoned_instance_that_holds_nothing_is_claimed_then_terminated() {
    let mut orphan = others(3);
    orphan.contact = answers(Client::Nobody, false, Mounted::Nothing);
    let mut seen = Observed {
        instances: vec![orphan],
        ..nothing()
    };
    assert_eq!(words(&saved(&seen)), "log in to i-3");
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Nothing);
    assert_eq!(words(&saved(&seen)), "terminate i-3");
}

/// A drive that this session has closed and whose instance it ended; another session's has come up.
fn handed_on(mut successor: SeenInstance) -> Observed {
    let mut seen = closed();
    seen.me.closed = Some((vol(1), Generation(5)));
    seen.instances[0].state = InstanceState::Terminated;
    successor.since = at(NOW - 1);
    seen.instances.push(successor);
    seen.volumes = vec![volume(1, 4, 5)];
    seen.snapshots = vec![SeenSnapshot {
        state: SnapshotState::Pending,
        ..snapshot(1, 1, 5)
    }];
    seen
}

#[test]
fn a_session_that_saves_does_not_wait_for_the_one_that_goes_on() {
    let booting = SeenInstance {
        contact: crate::drive::hosts::Contact::Unreachable,
        ..others(2)
    };
    for successor in [booting, others(2)] {
        let mut seen = handed_on(successor);
        assert_eq!(words(&saved(&seen)), "wait: Copy(SnapshotId(\"snap-1\"))");
        seen.snapshots[0].state = SnapshotState::Completed;
        assert_eq!(words(&saved(&seen)), "delete vol-1");
        seen.volumes.clear();
        let done = Done::Saved(Some((snap(1), Generation(5))));
        assert_eq!(saved(&seen), Next::Done(done));
    }
}

#[test]
fn a_volume_that_the_next_session_took_is_its_own_and_the_snapshot_is_waited_for() {
    let mut taken = volume(1, 4, 6);
    taken.session = SessionId("other".into());
    let mut seen = handed_on(others(2));
    for volume in [taken.clone(), on(2, taken)] {
        seen.volumes = vec![volume];
        seen.snapshots[0].state = SnapshotState::Pending;
        assert_eq!(words(&saved(&seen)), "wait: Copy(SnapshotId(\"snap-1\"))");
        seen.snapshots[0].state = SnapshotState::Completed;
        let done = Done::Saved(Some((snap(1), Generation(5))));
        assert_eq!(saved(&seen), Next::Done(done));
    }
}

#[test]
fn an_instance_that_nobody_came_for_is_no_successor() {
    let mut seen = handed_on(others(2));
    seen.instances[1].contact = answers(Client::Nobody, false, Mounted::Nothing);
    seen.snapshots[0].state = SnapshotState::Completed;
    assert_eq!(words(&saved(&seen)), "delete vol-1");
    seen.volumes.clear();
    assert!(words(&saved(&seen)).starts_with("wait: OtherStarting"));
    seen.instances[1].since = at(0);
    assert_eq!(words(&saved(&seen)), "log in to i-2");
}

/// A spare volume of generation 4 whose snapshot somebody deleted at the console.
fn outliving() -> Observed {
    Observed {
        volumes: vec![SeenVolume {
            snapshot: Some(snap(9)),
            session: SessionId("other".into()),
            ..volume(3, 4, 4)
        }],
        snapshots: vec![snapshot(1, 1, 3)],
        ..nothing()
    }
}

#[test]
fn a_volume_that_outlives_its_snapshot_is_the_newest_there_is() {
    let seen = outliving();
    assert_eq!(words(&saved(&seen)), "snapshot vol-3");
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
    let with_host = Observed {
        instances: vec![host(1)],
        ..seen
    };
    assert_eq!(words(&ready(&with_host)), "announce generation 5 on vol-3");
}

#[test]
fn of_two_volumes_that_outlive_their_snapshot_one_is_saved_and_the_other_then_goes() {
    let mut seen = outliving();
    seen.volumes.push(SeenVolume {
        id: vol(4),
        ..seen.volumes[0].clone()
    });
    assert_eq!(words(&saved(&seen)), "snapshot vol-3");
    seen.snapshots.push(snapshot(5, 3, 4));
    assert_eq!(words(&saved(&seen)), "delete vol-3; delete vol-4");
}

#[test]
fn a_host_that_may_have_restarted_before_it_closed_leaves_no_clean_drive() {
    let closed = SeenInstance {
        contact: answers(Client::Nobody, true, Mounted::Nothing),
        ..host(1)
    };
    let seen = Observed {
        instances: vec![closed],
        volumes: vec![on(
            1,
            SeenVolume {
                snapshot: Some(snap(1)),
                ..volume(2, 4, 5)
            },
        )],
        snapshots: vec![snapshot(1, 1, 4)],
        ..nothing()
    };
    let Next::Do(steps) = saved(&seen) else {
        panic!("{}", words(&saved(&seen)))
    };
    let kind = match &steps[0] {
        Step::Snapshot { kind, .. } => *kind,
        other => panic!("{other}"),
    };
    assert_eq!(kind, SnapshotKind::Crashed);
}

#[test]
fn only_what_a_host_unmounted_since_it_started_is_a_clean_drive() {
    let mut seen = mounted();
    let kind = |seen: &Observed| {
        assert_eq!(words(&saved(seen)), "snapshot vol-1");
        kind_of(&saved(seen))
    };
    // It closed by itself, and reports to any client what it unmounted.
    for client in [Client::Me, Client::Nobody] {
        seen.instances[0].contact = unmounted(client, 1);
        assert_eq!(kind(&seen), Some(SnapshotKind::Clean));
    }
    seen.instances[0].contact = unmounted(Client::Nobody, 2);
    assert_eq!(kind(&seen), Some(SnapshotKind::Crashed));
    // It restarted in the middle of its close: nothing is mounted, and nothing was unmounted.
    seen.instances[0].contact = answers(Client::Nobody, true, Mounted::Nothing);
    assert_eq!(kind(&seen), Some(SnapshotKind::Crashed));
    seen.me.closes.insert(id(1), Closed::NotMounted);
    seen.me.closed = Some((vol(1), Generation(5)));
    assert_eq!(kind(&seen), Some(SnapshotKind::Crashed));
    // It could not unmount, and made it read-only.
    seen.me.closes.clear();
    seen.instances[0].contact = answers(Client::Nobody, true, Mounted::Frozen(vol(1)));
    assert_eq!(kind(&seen), Some(SnapshotKind::Clean));
    // What was unmounted at another generation says nothing about this one.
    seen.instances[0].contact = answers(Client::Nobody, true, Mounted::Nothing);
    seen.me.unmounted = Some((vol(1), Generation(4)));
    assert_eq!(kind(&seen), Some(SnapshotKind::Crashed));
}

#[test]
fn a_volume_stays_until_its_snapshot_is_in_everybodys_lists() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        snapshots: vec![SeenSnapshot {
            is_everywhere: false,
            ..snapshot(1, 1, 5)
        }],
        ..nothing()
    };
    assert_eq!(words(&saved(&seen)), "wait: Settle");
    seen.snapshots[0].is_everywhere = true;
    assert_eq!(words(&saved(&seen)), "delete vol-1");
    // A call that was carried out twice makes two: the one that was looked into counts.
    seen.snapshots[0].is_everywhere = false;
    seen.snapshots.insert(0, snapshot(2, 1, 5));
    seen.me.verdicts.remove(&snap(2));
    assert_eq!(words(&saved(&seen)), "wait: Settle");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40_000, ..ProptestConfig::default() })]

    #[test]
    fn no_drive_is_saved_while_a_volume_of_it_is_left(seen in worlds()) {
        if let Next::Done(_) = next(&Goal::Saved { even_if_used: true }, &seen) {
            for volume in &seen.volumes {
                prop_assert!(!volume.exists(), "left, and billed: {volume:#?}");
            }
        }
    }
}
