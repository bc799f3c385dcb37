//! A drive that begins as a copy of another drive's snapshot, and the strangers that it may meet.

use super::fixtures::*;
use crate::drive::observed::{Observed, SeenSnapshot};
use crate::drive::plan::{Done, Goal, Next};
use crate::drive::stuck::{Head, Why};
use crate::drive::tags::{self, SnapshotKind};
use crate::drive::{CopyOrder, CopySource};
use crate::ec2::{SnapshotState, Tags};
use crate::ids::Generation;

fn goal() -> Goal {
    Goal::Copied(Box::new(CopyOrder {
        region: "us-east-1".to_owned(),
        source: CopySource::Snapshot(snap(9)),
        op: "copy-of-snap-9".to_owned(),
        tags: Tags::new(),
    }))
}

/// The copy of generation 5.
fn copy(number: u8) -> SeenSnapshot {
    SeenSnapshot {
        volume: Some("vol-ffffffff".parse().unwrap()),
        op: "copy-of-snap-9".to_owned(),
        is_forked: true,
        ..snapshot(number, 1, 5)
    }
}

fn with(snapshots: Vec<SeenSnapshot>) -> Observed {
    Observed {
        snapshots,
        ..nothing()
    }
}

fn plan(seen: &Observed) -> Next {
    next(&goal(), seen)
}

fn is_stuck(next: &Next, why: &Why) -> bool {
    matches!(next, Next::Stuck(stuck) if stuck.why == *why)
}

#[test]
fn a_new_drive_is_copied_once_and_done_when_the_copy_is_completed() {
    assert_eq!(words(&plan(&nothing())), "copy snap-9");
    let pending = SeenSnapshot {
        state: SnapshotState::Pending,
        ..copy(1)
    };
    assert_eq!(
        words(&plan(&with(vec![pending]))),
        "wait: Copy(SnapshotId(\"snap-1\"))"
    );
    let done = Next::Done(Done::Copied(snap(1), Generation(5)));
    assert_eq!(plan(&with(vec![copy(1)])), done);
    // Of two runs, or after an answer that was lost: one lineage.
    assert_eq!(plan(&with(vec![copy(1), copy(2)])), done);
}

#[test]
fn a_volume_that_is_no_drives_is_copied_once_too() {
    let order = |source| {
        let (own, tags) = tags::adopt(&source, SnapshotKind::Clean);
        let op = own.op;
        let region = "us-east-1".to_owned();
        Goal::Copied(Box::new(CopyOrder {
            region,
            source,
            op,
            tags,
        }))
    };
    let goal = order(CopySource::Volume(vol(9)));
    assert_eq!(words(&next(&goal, &nothing())), "copy vol-9");
    let made = SeenSnapshot {
        op: "copy-of-vol-9".to_owned(),
        is_forked: true,
        ..snapshot(1, 9, 1)
    };
    let done = Next::Done(Done::Copied(snap(1), Generation(1)));
    assert_eq!(next(&goal, &with(vec![made.clone()])), done);
    // One of another source is not it.
    let other = order(CopySource::Snapshot(snap(9)));
    assert!(is_stuck(&next(&other, &with(vec![made])), &Why::NotNew));
}

#[test]
fn nothing_is_copied_or_done_before_the_lists_are_settled() {
    let young = Observed {
        began: at(1),
        ..nothing()
    };
    assert_eq!(words(&plan(&young)), "wait: Settle");
    let mut lost = nothing();
    lost.me.unsure = Some(at(NOW - 1));
    assert_eq!(words(&plan(&lost)), "wait: Settle");
    let mut copied = with(vec![copy(1)]);
    copied.me.announced = Some(at(NOW - 1));
    assert_eq!(words(&plan(&copied)), "wait: Settle");
}

#[test]
fn a_drive_that_has_anything_else_is_not_copied_to() {
    let mounted = Observed {
        instances: vec![host(1)],
        ..nothing()
    };
    let made = Observed {
        volumes: vec![volume(1, 0, 0)],
        ..with(vec![copy(1)])
    };
    let worlds = [
        mounted,
        made,
        with(vec![snapshot(1, 1, 7)]),
        with(vec![copy(1), snapshot(2, 1, 7)]),
    ];
    for seen in &worlds {
        assert!(is_stuck(&plan(seen), &Why::NotNew), "{seen:?}");
    }
}

#[test]
fn a_copy_that_failed_is_for_a_person_to_delete() {
    let failed = SeenSnapshot {
        state: SnapshotState::Error,
        ..copy(1)
    };
    let next = plan(&with(vec![failed]));
    assert!(is_stuck(&next, &Why::CopyFailed(snap(1))));
    let Next::Stuck(stuck) = next else {
        unreachable!()
    };
    let demo = "demo".parse().unwrap();
    assert_eq!(stuck.commands(&demo), ["xdrive delete demo"]);
}

#[test]
fn a_copy_that_came_too_late_is_never_taken_for_the_newest_state() {
    // The drive was made, used and saved before; the copy's generation is higher.
    let late = with(vec![snapshot(1, 1, 1), copy(2)]);
    let forked = Why::Forked(vec![
        (Head::Snapshot(snap(2)), Generation(5)),
        (Head::Snapshot(snap(1)), Generation(1)),
    ]);
    assert!(is_stuck(&ready(&late), &forked), "{:?}", ready(&late));
    // What is newer than the copy is of its lineage.
    let own = with(vec![copy(1), snapshot(2, 1, 6)]);
    assert!(!matches!(ready(&own), Next::Stuck(_)));
    // Two drives copied into one.
    let other = SeenSnapshot {
        op: "copy-of-snap-8".to_owned(),
        generation: Generation(3),
        ..copy(3)
    };
    let both = with(vec![copy(1), other]);
    assert!(matches!(ready(&both), Next::Stuck(_)));
}

#[test]
fn a_person_chooses_the_copy_or_what_was_there() {
    let late = with(vec![snapshot(1, 1, 1), copy(2)]);
    for (chosen, kept) in [(2, "keep snap-1 as a fork"), (1, "keep snap-2 as a fork")] {
        assert_eq!(words(&from(Head::Snapshot(snap(chosen)), &late)), kept);
    }
}
