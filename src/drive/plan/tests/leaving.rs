//! A drive that leaves its name, and what may be found there afterwards.

use std::collections::BTreeSet;

use super::fixtures::*;
use crate::drive::hosts::{Client, Contact};
use crate::drive::observed::{Observed, SeenSnapshot};
use crate::drive::plan::{Done, Goal, Next};
use crate::drive::stuck::Why;
use crate::drive::tags::Leaving;
use crate::host::Mounted;
use crate::ids::{DriveName, SnapshotId};

/// A drive at rest with these snapshots.
fn with(snapshots: Vec<SeenSnapshot>) -> Observed {
    Observed {
        snapshots,
        ..nothing()
    }
}

fn deleted(shown: impl Into<BTreeSet<SnapshotId>>) -> Goal {
    let shown = shown.into();
    Goal::Deleted { shown }
}

#[test]
fn a_snapshot_taken_after_the_question_is_not_deleted() {
    let goal = deleted([snap(1)]);
    let is_stuck = |seen: &Observed| match next(&goal, seen) {
        Next::Stuck(stuck) => stuck.why == Why::SavedSince(snap(2)),
        _ => false,
    };
    let mut seen = with(vec![snapshot(1, 1, 1), snapshot(2, 2, 2)]);
    assert!(is_stuck(&seen));
    // The one that was shown may be pruned by then.
    seen.snapshots.remove(0);
    assert!(is_stuck(&seen));
    assert!(!is_stuck(&with(vec![snapshot(1, 1, 1)])));
}

#[test]
fn a_drive_with_an_instance_stays_where_it_is() {
    let goal = deleted([snap(1)]);
    let mut seen = with(vec![snapshot(1, 1, 1)]);
    seen.instances = vec![host(1)];
    let is_busy = |seen: &Observed| next(&goal, seen) == Next::Busy(id(1));
    seen.instances[0].contact = Contact::Unreachable;
    assert!(is_busy(&seen), "somebody may be there");
    seen.instances[0].contact = answers(Client::Nobody, false, Mounted::Nothing);
    assert_eq!(why(next(&goal, &seen)), Why::NotAtRest);
    // Who asks no host cannot say that somebody is there.
    seen.instances[0].contact = Contact::NotAsked;
    assert_eq!(why(next(&goal, &seen)), Why::NotAtRest);
}

#[test]
fn a_snapshot_made_after_deletion_or_renaming_began_is_another_drives() {
    let ways = |name: &str| {
        let name: DriveName = name.parse().unwrap();
        [
            (deleted([snap(1), snap(2)]), Leaving::Deleted, Done::Deleted),
            (
                Goal::Renamed(name.clone()),
                Leaving::Renamed(name),
                Done::Renamed,
            ),
        ]
    };
    for (goal, leaves, done) in ways("lab") {
        let marked = |number: u8| SeenSnapshot {
            leaving: Some(leaves.clone()),
            ..snapshot(number, number, number.into())
        };
        let is_done = |seen: &Observed| matches!(next(&goal, seen), Next::Done(it) if it == done);
        let mut seen = with(vec![marked(1), snapshot(2, 2, 2)]);
        let marks = words(&next(&goal, &seen));
        assert!(marks.contains("snap-2"), "{marks}");
        // A mark may have failed: both are still of this drive.
        seen.me.leaving.extend([snap(1), snap(2)]);
        assert_eq!(words(&next(&goal, &seen)), marks);
        // Somebody else took it to its end, and there is another drive, also one that leaves.
        for other in [snapshot(3, 3, 1), marked(3)] {
            seen.snapshots = vec![marked(1), other.clone()];
            assert_eq!(why(next(&goal, &seen)), Why::NotAtRest);
            seen.snapshots.remove(0);
            assert!(is_done(&seen));
            seen.instances = vec![host(1)];
            assert!(is_done(&seen), "it is in use");
            seen.instances.clear();
        }
    }
}
