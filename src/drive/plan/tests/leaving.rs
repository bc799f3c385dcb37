//! A drive that leaves its name, and what may be found there afterwards.

use super::fixtures::*;
use crate::drive::observed::{Observed, SeenSnapshot};
use crate::drive::plan::{Done, Goal, Next};
use crate::drive::stuck::Why;
use crate::drive::tags::Leaving;

/// A drive at rest with a marked snapshot and one without a mark.
fn seen(why: &Leaving) -> Observed {
    let marked = SeenSnapshot {
        leaving: Some(why.clone()),
        ..snapshot(1, 1, 1)
    };
    Observed {
        snapshots: vec![marked, snapshot(2, 2, 2)],
        ..nothing()
    }
}

#[test]
fn what_has_the_name_after_the_first_has_gone_is_another_drive() {
    let name = "lab".parse().unwrap();
    for (goal, why_it_leaves, done) in [
        (Goal::Deleted, Leaving::Deleted, Done::Deleted),
        (
            Goal::Renamed(name),
            Leaving::Renamed("lab".parse().unwrap()),
            Done::Renamed,
        ),
    ] {
        let mut seen = seen(&why_it_leaves);
        // Nothing has gone yet: it is this drive's.
        let marks = words(&next(&goal, &seen));
        assert!(marks.contains("snap-2"), "{marks}");
        seen.me.has_taken = true;
        assert_eq!(why(next(&goal, &seen)), Why::NotAtRest);
        seen.snapshots.remove(0);
        assert!(matches!(next(&goal, &seen), Next::Done(it) if it == done));
        // Also one that is in use.
        seen.instances.push(host(1));
        assert!(matches!(next(&goal, &seen), Next::Done(it) if it == done));
    }
}
