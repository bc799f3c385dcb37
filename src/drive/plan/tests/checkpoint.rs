//! Checkpoints: when one is taken, what it is worth, and when it goes.

use super::super::View;
use super::super::checkpoint::{Skipped, checkpoint, outdated, prune};
use super::fixtures::*;
use crate::drive::Timing;
use crate::drive::hosts::Client;
use crate::drive::observed::{Attempt, Observed, SeenSnapshot, Verdict};
use crate::drive::plan::Step;
use crate::drive::proof::{PruningGrounds, Reread};
use crate::drive::tags::{self, Identity, Settings, SnapshotKind, SnapshotTags};
use crate::ec2::{Snapshot, SnapshotState};
use crate::host::Mounted;

/// The `number`th checkpoint of volume 1's generation.
fn point(number: u8, generation: u64) -> SeenSnapshot {
    SeenSnapshot {
        kind: SnapshotKind::Checkpoint,
        number: number.into(),
        ..snapshot(number, 1, generation)
    }
}

fn in_use() -> Observed {
    let mut seen = Observed {
        instances: vec![host(1)],
        volumes: vec![on(1, volume(1, 4, 5))],
        ..nothing()
    };
    seen.instances[0].contact = answers(Client::Me, false, Mounted::Volume(vol(1)));
    seen
}

fn taken(seen: &Observed) -> Result<Step, Skipped> {
    checkpoint(&View {
        seen,
        now: at(NOW),
        timing: &Timing::aws(),
    })
}

fn printed(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn one_is_taken_of_the_mounted_drive_at_its_generation() {
    let seen = in_use();
    let step = Step::Snapshot {
        volume: vol(1),
        generation: seen.volumes[0].generation,
        kind: SnapshotKind::Checkpoint,
    };
    assert_eq!(taken(&seen), Ok(step));
}

#[test]
fn one_is_taken_of_what_another_client_has_mounted() {
    let mut seen = in_use();
    seen.instances[0].contact = answers(somebody(), false, Mounted::Volume(vol(1)));
    taken(&seen).unwrap();
}

#[test]
fn none_is_taken_of_what_nobody_has_mounted() {
    for contact in [
        answers(Client::Me, false, Mounted::Nothing),
        answers(Client::Me, true, Mounted::Volume(vol(1))),
        answers(Client::Me, false, Mounted::Frozen(vol(1))),
        answers(Client::Nobody, false, Mounted::Volume(vol(1))),
        crate::drive::hosts::Contact::Unreachable,
    ] {
        let mut seen = in_use();
        seen.instances[0].contact = contact;
        assert_eq!(taken(&seen), Err(Skipped::NotMounted), "{seen:#?}");
    }
}

#[test]
fn the_last_snapshot_of_a_session_never_waits_for_many_checkpoints() {
    let mut seen = in_use();
    seen.snapshots = vec![SeenSnapshot {
        state: SnapshotState::Pending,
        ..point(1, 5)
    }];
    assert_eq!(taken(&seen), Err(Skipped::Pending(snap(1))));
    seen.snapshots[0].state = SnapshotState::Completed;
    let attempt = |seconds| Attempt {
        volume: vol(1),
        op: "op".into(),
        kind: SnapshotKind::Checkpoint,
        at: at(seconds),
    };
    seen.me.attempts = vec![attempt(NOW - 14)];
    assert_eq!(taken(&seen), Err(Skipped::TooSoon));
    seen.me.attempts = vec![attempt(NOW - 15)];
    taken(&seen).unwrap();
}

#[test]
fn checkpoints_are_no_attempts_to_save_but_keep_their_distance() {
    let mut seen = in_use();
    seen.instances[0].contact = answers(Client::Me, true, Mounted::Nothing);
    let attempt = |seconds| Attempt {
        volume: vol(1),
        op: "op".into(),
        kind: SnapshotKind::Checkpoint,
        at: at(seconds),
    };
    seen.me.attempts = (1..=5).map(|ago| attempt(NOW - 60 * ago)).rev().collect();
    assert_eq!(words(&saved(&seen)), "snapshot vol-1");
    seen.me.attempts.push(attempt(NOW - 5));
    assert!(words(&saved(&seen)).starts_with("wait: SnapshotGap"));
}

#[test]
fn the_newest_two_of_a_generation_stay_while_it_lasts() {
    let mut seen = in_use();
    seen.snapshots = vec![point(3, 5), point(1, 5), point(4, 5), point(2, 5)];
    seen.snapshots[2].state = SnapshotState::Pending;
    assert_eq!(printed(&prune(&seen)), ["delete superseded snap-1"]);
    seen.snapshots[2].state = SnapshotState::Error;
    let failed = ["delete superseded snap-1", "delete failed snap-4"];
    assert_eq!(printed(&prune(&seen)), failed);
    seen.me.not_pruned.insert(snap(1));
    assert_eq!(printed(&prune(&seen)), failed[1..]);
}

#[test]
fn all_go_when_a_final_snapshot_stands_and_none_before() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        snapshots: vec![point(1, 5), point(2, 5), snapshot(3, 1, 5)],
        ..nothing()
    };
    seen.me.verdicts.clear();
    assert_eq!(prune(&seen), []);
    let wrong = Verdict::Unsound("it holds no ext4".into());
    seen.me.verdicts.insert(snap(3), wrong);
    assert_eq!(prune(&seen), []);
    seen.me.verdicts.insert(snap(3), Verdict::Sound);
    let both = ["delete superseded snap-1", "delete superseded snap-2"];
    assert_eq!(printed(&prune(&seen)), both);
    // The save itself comes first.
    assert_eq!(words(&saved(&seen)), "delete vol-1");
    // For the next process the missing volume shows that the snapshot was verified.
    seen.me.verdicts.clear();
    seen.volumes.clear();
    assert_eq!(words(&saved(&seen)), both.join("; "));
    // Not where it is of another lineage.
    seen.snapshots[2].volume = Some(vol(2));
    assert_eq!(prune(&seen), []);
    seen.snapshots[2] = snapshot(3, 2, 6);
    assert_eq!(printed(&prune(&seen)), both);
}

#[test]
fn a_surviving_volume_wins_over_its_checkpoints_and_the_last_of_them_over_the_others() {
    let mut seen = Observed {
        volumes: vec![volume(1, 4, 5)],
        snapshots: vec![point(2, 5), point(1, 5), snapshot(9, 2, 4)],
        ..nothing()
    };
    seen.snapshots[1].id = snap(8);
    assert_eq!(words(&ready(&seen)), "launch an instance in a");
    // With its volume lost the drive is as it was at the last checkpoint, whatever the ids are.
    seen.volumes.clear();
    seen.instances = vec![host(1)];
    assert_eq!(words(&ready(&seen)), "create a volume from snap-2 in a");
    // Never before a final one of the same generation.
    seen.snapshots.push(snapshot(1, 1, 5));
    assert_eq!(words(&ready(&seen)), "create a volume from snap-1 in a");
}

#[test]
fn old_snapshots_go_only_where_the_drive_is_wholly_saved() {
    let history = |count| (1..=count).map(|number| snapshot(number, number, number.into()));
    let mut seen = Observed {
        snapshots: history(4).collect(),
        ..nothing()
    };
    let gone = |seen: &Observed, keep| printed(&outdated(seen, keep));
    let two = ["delete superseded snap-1", "delete superseded snap-2"];
    assert_eq!(gone(&seen, 2), two);
    assert_eq!(gone(&seen, 0), gone(&seen, 1));
    assert_eq!(gone(&seen, 4), [""; 0]);
    seen.snapshots[3].state = SnapshotState::Pending;
    assert_eq!(gone(&seen, 2), [""; 0]);
    seen.snapshots[3].state = SnapshotState::Completed;
    seen.volumes = vec![volume(9, 2, 2)];
    assert_eq!(gone(&seen, 2), [""; 0]);
    seen.volumes.clear();
    seen.unreadable = vec![("snap-9".into(), "its tag is missing".into())];
    assert_eq!(gone(&seen, 2), [""; 0]);
}

#[test]
fn a_snapshot_goes_with_nothing_in_its_place_only_if_it_says_that_its_drive_is_thrown_away() {
    let one = snapshot(1, 1, 1);
    let mut seen = Observed {
        snapshots: vec![one.clone()],
        ..nothing()
    };
    let proof = PruningGrounds::prove_scratch(&seen, &one).unwrap();
    let read = |scratch: bool| {
        let who = Identity::new(mine(), "me".to_owned());
        let own = SnapshotTags {
            generation: one.generation,
            kind: one.kind,
            op: one.op.clone(),
            uuid: None,
            number: 0,
        };
        let settings = Settings::default().scratch(scratch);
        Snapshot {
            id: one.id.clone(),
            state: one.state,
            volume: one.volume.clone(),
            size: one.size,
            full_size: None,
            started: "2026-11-22T10:00:00Z".parse().unwrap(),
            message: String::new(),
            tags: tags::snapshot(&"demo".parse().unwrap(), &who, &own, &settings.into()),
        }
    };
    let after = |seconds| Reread {
        asked: at(NOW),
        now: at(NOW + seconds),
        failing: None,
    };
    assert!(proof.confirm(after(1), &read(true), &[]).is_some());
    assert!(proof.confirm(after(1), &read(false), &[]).is_none());
    assert!(proof.confirm(after(300), &read(true), &[]).is_none());
    let pending = Snapshot {
        state: SnapshotState::Pending,
        ..read(true)
    };
    assert!(proof.confirm(after(1), &pending, &[]).is_none());
    // Nothing goes while there is a volume.
    seen.volumes = vec![volume(1, 1, 1)];
    assert!(PruningGrounds::prove_scratch(&seen, &one).is_none());
}
