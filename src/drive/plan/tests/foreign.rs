//! Resources that were tagged as the drive's, and that xdrive did not make of it.

use super::fixtures::*;
use crate::drive::observed::{Observed, SeenSnapshot};
use crate::drive::plan::{Goal, Next, Step, outdated};
use crate::drive::stuck::{Head, Why};
use crate::ids::Uuid;

/// A drive with a snapshot of generation 3, and one of 4 that says it is the drive's.
fn taken_over(uuid: Option<Uuid>, has_owner: bool) -> Observed {
    let was = SeenSnapshot {
        uuid: Some(Uuid::from_bytes([1; 16])),
        ..snapshot(1, 1, 3)
    };
    let newest = SeenSnapshot {
        uuid,
        has_owner,
        ..snapshot(2, 2, 4)
    };
    Observed {
        snapshots: vec![was, newest],
        ..nothing()
    }
}

#[test]
fn a_snapshot_that_is_only_tagged_as_the_newest_is_not_taken_over_unasked() {
    let own = Some(Uuid::from_bytes([1; 16]));
    let other = Some(Uuid::from_bytes([2; 16]));
    assert!(words(&ready(&taken_over(own, true))).starts_with("launch"));
    for (uuid, has_owner) in [(other, true), (None, true), (own, false)] {
        let seen = taken_over(uuid, has_owner);
        for goal in [Goal::Ready { from: None }, Goal::Throwaway] {
            let Why::Foreign(foreign) = why(next(&goal, &seen)) else {
                panic!("taken over: {uuid:?} {has_owner}");
            };
            assert_eq!(foreign.head, Head::Snapshot(snap(2)));
            assert_eq!(foreign.older, Some(Head::Snapshot(snap(1))));
        }
        assert!(matches!(why(saved(&seen)), Why::Foreign(_)));
        // Both ways out: the former state, which keeps the other as a fork, and the newest.
        let back = from(Head::Snapshot(snap(1)), &seen);
        assert_eq!(words(&back), "keep snap-2 as a fork");
        let on = words(&from(Head::Snapshot(snap(2)), &seen));
        if uuid == own {
            assert!(on.starts_with("launch"), "{on}");
        } else {
            assert_eq!(on, "keep snap-1 as a fork");
        }
    }
}

#[test]
fn a_volume_that_was_only_tagged_as_the_drives_is_not_attached() {
    let mut seen = taken_over(Some(Uuid::from_bytes([1; 16])), true);
    seen.volumes.push(volume(7, 4, 5));
    let Why::Foreign(foreign) = why(ready(&seen)) else {
        panic!("attached");
    };
    assert_eq!(foreign.head, Head::Volume(vol(7)));
    assert_eq!(foreign.older, Some(Head::Snapshot(snap(2))));
    seen.volumes[0].uuid = Some(Uuid::from_bytes([1; 16]));
    assert!(words(&ready(&seen)).starts_with("launch"));
    seen.volumes[0].has_owner = false;
    assert!(matches!(why(ready(&seen)), Why::Foreign(_)));
}

#[test]
fn a_snapshot_of_another_file_system_supersedes_none_of_the_drives() {
    let seen = taken_over(Some(Uuid::from_bytes([2; 16])), true);
    assert_eq!(outdated(&seen, 1), []);
    let seen = taken_over(Some(Uuid::from_bytes([1; 16])), true);
    assert_eq!(outdated(&seen, 1).len(), 1);
}

#[test]
fn the_generations_of_the_former_file_system_are_kept_as_one_drive() {
    let mut seen = taken_over(Some(Uuid::from_bytes([2; 16])), true);
    seen.snapshots.push(SeenSnapshot {
        uuid: Some(Uuid::from_bytes([1; 16])),
        ..snapshot(3, 3, 2)
    });
    let Next::Do(steps) = from(Head::Snapshot(snap(2)), &seen) else {
        panic!("nothing is kept");
    };
    let forks = steps.iter().map(|step| match step {
        Step::Fork { head, lineage } => (head.to_string(), lineage.clone()),
        other => panic!("{other}"),
    });
    let kept = [("snap-3", vol(1)), ("snap-1", vol(1))];
    let kept = kept.map(|(id, volume)| (id.to_owned(), Some(volume)));
    assert_eq!(forks.collect::<Vec<_>>(), kept);
}

#[test]
fn snapshots_of_one_volume_are_of_its_file_system_whatever_their_tags_say() {
    let mut seen = taken_over(None, true);
    seen.snapshots[0].volume = Some(vol(2));
    assert!(words(&ready(&seen)).starts_with("launch"));
    // A copy's volume is nobody's.
    for snapshot in &mut seen.snapshots {
        snapshot.volume = Some("vol-ffffffff".parse().unwrap());
    }
    assert!(matches!(why(ready(&seen)), Why::Foreign(_)));
}
