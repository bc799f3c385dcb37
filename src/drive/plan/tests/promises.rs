//! The promises over random worlds: no step that destroys, mounts or makes is planned without its
//! reason. They are written here a second time, from the crate's table, not from the plan's code.

use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::fixtures::*;
use crate::drive::Source;
use crate::drive::hosts::{Client, Contact};
use crate::drive::observed::{
    Observed, Refusal, SeenAttachment, SeenInstance, SeenLease, SeenSnapshot, SeenVolume, Verdict,
};
use crate::drive::plan::{Goal, Next, Step};
use crate::drive::stuck::Head;
use crate::drive::tags::SnapshotKind;
use crate::ec2::{AttachmentState, InstanceState, SnapshotState, VolumeState, Zone};
use crate::host::Mounted;
use crate::ids::{Generation, SessionId};

fn sessions() -> impl Strategy<Value = SessionId> {
    prop_oneof![4 => "mine", 1 => "other", 1 => "third"].prop_map(SessionId)
}

fn moments() -> impl Strategy<Value = crate::clock::BootTime> {
    proptest::sample::select(vec![0, NOW - 400, NOW - 20, NOW - 5, NOW]).prop_map(at)
}

fn contacts() -> impl Strategy<Value = Contact> {
    let clients = prop_oneof![
        2 => Just(Client::Nobody),
        8 => Just(Client::Me),
        1 => Just(somebody()),
    ];
    let mounts = prop_oneof![
        4 => Just(Mounted::Nothing),
        2 => (1..4_u8).prop_map(|number| Mounted::Volume(vol(number))),
        1 => (1..4_u8).prop_map(|number| Mounted::Frozen(vol(number))),
    ];
    prop_oneof![
        1 => Just(Contact::NotAsked),
        1 => Just(Contact::Unreachable),
        4 => (clients, proptest::bool::weighted(0.2), mounts)
            .prop_map(|(client, closing, mounted)| answers(client, closing, mounted)),
    ]
}

fn instances() -> impl Strategy<Value = SeenInstance> {
    let states = prop_oneof![
        12 => Just(InstanceState::Running),
        1 => Just(InstanceState::Pending),
        1 => Just(InstanceState::Stopping),
        1 => Just(InstanceState::Stopped),
        1 => Just(InstanceState::ShuttingDown),
        1 => Just(InstanceState::Terminated),
    ];
    let spared = option::weighted(0.3, moments());
    (
        states,
        sessions(),
        contacts(),
        moments(),
        any::<bool>(),
        0..3_u64,
        option::weighted(0.2, moments()),
        (option::weighted(0.3, checks()), spared),
    )
        .prop_map(
            |(state, session, contact, since, listed, launched, off_by, known)| SeenInstance {
                state,
                session,
                contact: if state == InstanceState::Running {
                    contact
                } else {
                    Contact::NotAsked
                },
                since,
                made: since,
                checks: known.0,
                spared: known.1,
                listed,
                lease: off_by.map(|off_by| SeenLease {
                    until: jiff::Timestamp::UNIX_EPOCH,
                    off_by,
                }),
                launched: jiff::Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(launched),
                ..host(1)
            },
        )
}

fn attachments() -> impl Strategy<Value = Option<SeenAttachment>> {
    let states = prop_oneof![
        12 => Just(AttachmentState::Attached),
        1 => Just(AttachmentState::Attaching),
        1 => Just(AttachmentState::Detaching),
        1 => Just(AttachmentState::Busy),
    ];
    option::of((states, 1..4_u8, proptest::bool::weighted(0.03)).prop_map(
        |(state, on, delete_on_termination)| SeenAttachment {
            instance: id(on),
            state,
            device: "/dev/sdf".into(),
            delete_on_termination,
        },
    ))
}

fn volumes() -> impl Strategy<Value = SeenVolume> {
    let states = prop_oneof![
        6 => Just(VolumeState::Available),
        1 => Just(VolumeState::Creating),
        1 => Just(VolumeState::Error),
        1 => Just(VolumeState::Deleting),
    ];
    (
        states,
        attachments(),
        0..3_u64,
        0..3_u64,
        (
            proptest::bool::weighted(0.8),
            any::<bool>(),
            proptest::bool::weighted(0.9),
        ),
        sessions(),
        moments(),
        option::of(1..5_u8),
    )
        .prop_map(
            |(state, attachment, base, ahead, (blank, formatted, listed), session, since, from)| {
                SeenVolume {
                    state: if attachment.is_some() {
                        VolumeState::InUse
                    } else {
                        state
                    },
                    attachment,
                    base: Generation(base),
                    generation: Generation(base + ahead),
                    blank: blank && base == 0,
                    formatted,
                    listed,
                    session,
                    since,
                    snapshot: from.filter(|_| base > 0).map(snap),
                    zone: Zone("a".into()),
                    ..volume(1, 0, 0)
                }
            },
        )
}

fn snapshots() -> impl Strategy<Value = SeenSnapshot> {
    let states = prop_oneof![
        4 => Just(SnapshotState::Completed),
        1 => Just(SnapshotState::Pending),
        1 => Just(SnapshotState::Error),
    ];
    let kinds = prop_oneof![
        2 => Just(SnapshotKind::Clean),
        1 => Just(SnapshotKind::Crashed),
        1 => Just(SnapshotKind::Checkpoint),
    ];
    let everywhere = any::<bool>();
    (states, kinds, 1..5_u8, 0..5_u64, moments(), everywhere).prop_map(
        |(state, kind, of, generation, since, is_everywhere)| SeenSnapshot {
            state,
            kind,
            since,
            is_everywhere,
            ..snapshot(1, of, generation)
        },
    )
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        4 => Just(Verdict::Sound),
        1 => Just(Verdict::Unverifiable("not allowed".into())),
        1 => Just(Verdict::Unsound("it is another one".into())),
        1 => (moments(), moments()).prop_map(|(first, last)| Verdict::Open { first, last }),
    ]
}

prop_compose! {
    pub(super) fn worlds()(
        mut instances in proptest::collection::vec(instances(), 0..3),
        mut volumes in proptest::collection::vec(volumes(), 0..3),
        mut snapshots in proptest::collection::vec(snapshots(), 0..3),
        first in moments(),
        announced in option::weighted(0.3, moments()),
        unsure in option::weighted(0.2, moments()),
        raised in option::of((1..4_u8, 1..4_u64)),
        refused in option::weighted(0.2, 1..4_u8),
        verdicts in proptest::collection::vec(option::of(verdicts()), 4),
        (is_new, are_aligned) in (proptest::bool::weighted(0.05), any::<bool>()),
    ) -> Observed {
        // Too rare to wait for: a new drive on its first host, and snapshots as new as their
        // volumes.
        if is_new {
            instances = vec![host(1)];
            volumes = vec![on(1, SeenVolume { formatted: false, ..volume(1, 0, 1) })];
            snapshots.clear();
        }
        for (number, instance) in (1..).zip(&mut instances) {
            instance.id = id(number);
        }
        for (number, volume) in (1..).zip(&mut volumes) {
            volume.id = vol(number);
        }
        for (number, snapshot) in (1..).zip(&mut snapshots) {
            snapshot.id = snap(number);
            snapshot.op = format!("op-{number}");
            let of = volumes.iter().find(|volume| Some(&volume.id) == snapshot.volume.as_ref());
            if let Some(of) = of.filter(|_| are_aligned) {
                snapshot.generation = of.generation;
            }
        }
        let mut seen = Observed { first, instances, volumes, snapshots, ..nothing() };
        seen.me.announced = announced;
        seen.me.unsure = unsure;
        seen.me.raised = raised.map(|(number, generation)| (vol(number), Generation(generation)));
        seen.me.verdicts = (1..)
            .zip(verdicts)
            .filter_map(|(number, verdict)| Some((snap(number), verdict?)))
            .collect();
        seen.me.refused = refused.map(|number| (vol(number), Refusal::Garbled));
        seen
    }
}

fn goals() -> impl Strategy<Value = Goal> {
    prop_oneof![
        3 => Just(Goal::Ready { from: None }),
        1 => (1..4_u8).prop_map(|number| Goal::Ready { from: Some(Head::Volume(vol(number))) }),
        1 => (1..4_u8).prop_map(|number| Goal::Ready { from: Some(Head::Snapshot(snap(number))) }),
        2 => Just(Goal::Ended),
        2 => Just(Goal::Parked),
        2 => any::<bool>().prop_map(|even_if_used| Goal::Saved { even_if_used }),
    ]
}

fn is_live(instance: &SeenInstance) -> bool {
    matches!(
        instance.state,
        InstanceState::Running | InstanceState::Pending
    )
}

/// P1, and the volume must be attached to nothing.
fn deletable(seen: &Observed, volume: &SeenVolume) -> bool {
    let never_attached = volume.generation == volume.base;
    let saved = seen.snapshots.iter().any(|snapshot| {
        snapshot.volume.as_ref() == Some(&volume.id)
            && snapshot.state == SnapshotState::Completed
            && snapshot.kind != SnapshotKind::Checkpoint
            && snapshot.generation == volume.generation
            && matches!(
                seen.me.verdicts.get(&snapshot.id),
                Some(Verdict::Sound | Verdict::Unverifiable(_))
            )
    });
    let any_snapshot = seen
        .snapshots
        .iter()
        .any(|snapshot| snapshot.volume.as_ref() == Some(&volume.id));
    let never_handed_out = volume.blank
        && !volume.formatted
        && volume.base == Generation(0)
        && volume.generation == Generation(1)
        && !any_snapshot;
    volume.attachment.is_none() && (never_attached || saved || never_handed_out)
}

/// P2: nothing attached, or the host reported that it is closed.
fn terminable(seen: &Observed, instance: &SeenInstance) -> bool {
    let attached = seen.volumes.iter().any(|volume| {
        let to = volume
            .attachment
            .as_ref()
            .map(|attachment| &attachment.instance);
        to == Some(&instance.id)
    });
    let closed = match &instance.contact {
        Contact::Reached(view) => view.closing && !matches!(view.mounted, Mounted::Volume(_)),
        _ => false,
    };
    let silent = !matches!(instance.contact, Contact::Reached(_));
    let off = instance
        .lease
        .is_some_and(|lease| seen.began >= lease.off_by);
    !attached || closed || (silent && off)
}

/// Whether a generation may be raised or an empty volume made: everything that other sessions made
/// before would be in these lists, and no other session's instance is older than mine.
fn settled(seen: &Observed) -> bool {
    let settle = std::time::Duration::from_secs(15);
    let old = |moment: crate::clock::BootTime| seen.began >= moment + settle;
    old(seen.first) && seen.me.announced.is_none_or(old) && seen.me.unsure.is_none_or(old)
}

fn check(goal: &Goal, seen: &Observed, step: &Step) -> Result<(), TestCaseError> {
    match step {
        Step::DeleteVolume(spent) => {
            let volume = seen.volume(spent.volume()).unwrap();
            prop_assert!(deletable(seen, volume), "P1: {volume:#?}");
        }
        Step::Terminate(quiet) => {
            let instance = seen.instance(quiet.instance()).unwrap();
            prop_assert!(terminable(seen, instance), "P2: {instance:#?}");
        }
        Step::DeleteSnapshot(failed) => {
            let found = seen
                .snapshots
                .iter()
                .find(|snapshot| snapshot.id == *failed.snapshot());
            let snapshot = found.unwrap();
            prop_assert_eq!(snapshot.state, SnapshotState::Error);
            prop_assert!(seen.volume(snapshot.volume.as_ref().unwrap()).is_some());
        }
        Step::Raise { volume, to } => {
            let volume = seen.volume(volume).unwrap();
            prop_assert_eq!(*to, volume.generation.next());
            let getting_ready = matches!(goal, Goal::Ready { .. });
            prop_assert!(getting_ready);
            if volume.attachment.is_none() {
                prop_assert!(settled(seen), "P3: raised before the lists are settled");
                prop_assert!(newest(seen, volume), "P3: an older volume is announced");
            }
        }
        Step::Attach {
            volume,
            instance,
            generation,
        } => {
            let raised = Some((volume.clone(), *generation));
            prop_assert_eq!(&seen.me.raised, &raised);
            let host = seen.instance(instance).unwrap();
            let held = matches!(&host.contact, Contact::Reached(view) if view.client == Client::Me && !view.closing);
            prop_assert!(held, "P3: attached to a host that is not held: {host:#?}");
            let volume = seen.volume(volume).unwrap();
            let others = seen
                .instances
                .iter()
                .filter(|other| other.id != host.id && is_live(other));
            for other in others {
                let holds = seen.held_by(&other.id).next().is_some();
                prop_assert!(!holds, "P3: {} holds a volume of the drive", other.id);
            }
            prop_assert!(newest(seen, volume), "P3: an older volume is attached");
        }
        Step::Mount { order, .. } if order.blank => {
            let volume = seen.volume(&order.volume).unwrap();
            let p5 = volume.blank
                && !volume.formatted
                && volume.base == Generation(0)
                && volume.generation == Generation(1)
                && seen.snapshots_of(&volume.id).next().is_none();
            prop_assert!(p5, "P5: {volume:#?}");
        }
        Step::CreateVolume {
            from: Source::Empty,
            ..
        } => {
            prop_assert!(
                settled(seen),
                "P3: a new drive before the lists are settled"
            );
            prop_assert!(
                seen.snapshots.is_empty(),
                "P3: a new drive beside a snapshot"
            );
        }
        Step::CreateVolume {
            from: Source::Snapshot(id, generation),
            ..
        } => {
            for snapshot in &seen.snapshots {
                prop_assert!(
                    snapshot.generation <= *generation,
                    "P3: {id} is not the newest"
                );
            }
        }
        Step::Snapshot {
            volume, generation, ..
        } => {
            let volume = seen.volume(volume).unwrap();
            prop_assert_eq!(volume.generation, *generation);
            let holder = volume
                .attachment
                .as_ref()
                .and_then(|to| seen.instance(&to.instance));
            prop_assert!(
                holder.is_none_or(|host| terminable(seen, host)),
                "a volume that may be written to is snapshotted as final"
            );
        }
        _ => {}
    }
    Ok(())
}

/// Whether nothing in the record is newer than the volume, or as new and of another line.
fn newest(seen: &Observed, volume: &SeenVolume) -> bool {
    let by_snapshots = seen.snapshots.iter().all(|snapshot| {
        snapshot.generation < volume.generation
            || snapshot.volume.as_ref() == Some(&volume.id)
            || (volume.generation == volume.base
                && snapshot.generation == volume.base
                && snapshots_agree(seen, volume.base))
    });
    let by_volumes = seen.volumes.iter().all(|other| {
        let gone = matches!(other.state, VolumeState::Deleting | VolumeState::Deleted);
        let saved = seen.snapshots.iter().any(|snapshot| {
            snapshot.volume.as_ref() == Some(&other.id)
                && snapshot.state == SnapshotState::Completed
                && snapshot.kind != SnapshotKind::Checkpoint
                && snapshot.generation == other.generation
        });
        other.id == volume.id
            || gone
            || other.generation == other.base
            || other.generation < volume.generation
            || saved
            || (!other.formatted && other.blank)
    });
    by_snapshots && by_volumes
}

/// Whether the snapshots of a generation are all of one volume.
fn snapshots_agree(seen: &Observed, generation: Generation) -> bool {
    let mut of = seen
        .snapshots
        .iter()
        .filter(|snapshot| snapshot.generation == generation)
        .map(|snapshot| &snapshot.volume);
    let first = of.next();
    of.all(|volume| Some(volume) == first)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_step_is_planned_without_its_reason(seen in worlds(), goal in goals()) {
        if let Next::Do(steps) = next(&goal, &seen) {
            prop_assert!(!steps.is_empty());
            for step in &steps {
                check(&goal, &seen, step)?;
            }
        }
    }

    #[test]
    fn nothing_is_destroyed_when_it_is_stuck_or_busy(seen in worlds(), goal in goals()) {
        // The plan is a function: called twice, it returns the same.
        prop_assert_eq!(next(&goal, &seen), next(&goal, &seen));
        if let Next::Wait(_, span) = next(&goal, &seen) {
            prop_assert!(!span.is_zero(), "a wait without an end is a busy loop");
        }
    }
}

/// Without this the promises could hold because nothing is ever planned.
#[test]
fn the_random_worlds_reach_every_step_that_the_promises_speak_of() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached = std::collections::BTreeMap::<&str, u32>::new();
    for _ in 0..100_000 {
        if reached.len() == 8 {
            break;
        }
        let tree = (worlds(), goals()).new_tree(&mut runner).unwrap();
        let (seen, goal) = tree.current();
        let Next::Do(steps) = next(&goal, &seen) else {
            continue;
        };
        for step in steps {
            let name = match step {
                Step::DeleteVolume(_) => "delete a volume",
                Step::Terminate(_) => "terminate",
                Step::DeleteSnapshot(_) => "delete a snapshot",
                Step::Raise { .. } => "raise",
                Step::Mount { order, .. } if order.blank => "format",
                Step::CreateVolume {
                    from: Source::Empty,
                    ..
                } => "make a new drive",
                Step::CreateVolume { .. } => "restore",
                Step::Snapshot { .. } => "snapshot",
                _ => continue,
            };
            *reached.entry(name).or_default() += 1;
        }
    }
    assert_eq!(reached.len(), 8, "{reached:?}");
}
