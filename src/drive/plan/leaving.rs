//! The ways out of a drive's name: it is deleted, or gets another one. Both mark all snapshots of a
//! drive at rest, look again, and then take one after the other from it.
//!
//! EC2 has no transactions, so this is announce, settle, look, act, as for a mount. A connect that
//! sees the mark never mounts; one that looked before the mark has an instance or a volume by then,
//! which the look after it shows. The newest snapshot is the last to be marked: until then the drive
//! is whole. Of a drive that is deleted it is the last to go, and never leaves an older one behind. A
//! drive that is renamed has it first under its new name, and is whole there at once; what is left
//! under the old one is marked.
//!
//! The name is free once all have gone, and a process that slept meanwhile may find another drive there:
//! it touches only what there was at the look before its first mark, rename or deletion.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::hosts::{Client, Contact};
use super::super::observed::SeenSnapshot;
use super::super::proof::PruningGrounds;
use super::super::stuck::Why;
use super::super::tags::Leaving;
use super::step::{Done, Next, Step, View, Waiting};
use crate::ec2::SnapshotState;
use crate::ids::{DriveName, SnapshotId};

/// Plans the deletion of the whole drive, whose user was `shown` these snapshots. One that was saved
/// while the question was open is work that nobody agreed to lose.
pub(super) fn deleted(view: &View, shown: &BTreeSet<SnapshotId>) -> Next {
    let mut snapshots = view.seen.snapshots.iter();
    if view.seen.me.leaving.is_empty()
        && let Some(later) = snapshots.find(|it| !shown.contains(&it.id))
    {
        return view.stuck(Why::SavedSince(later.id.clone()));
    }
    if let Some(next) = before(view, &Leaving::Deleted, Done::Deleted) {
        return next;
    }
    let grounds = view.seen.snapshots.iter();
    let grounds = grounds.filter_map(|snapshot| PruningGrounds::prove_deleted(view.seen, snapshot));
    steps_or_done(grounds.map(Step::Erase).collect(), Done::Deleted)
}

/// Plans that the whole drive gets the name `to`.
pub(super) fn renamed(view: &View, to: &DriveName) -> Next {
    let is_deleted = |it: &SeenSnapshot| it.leaving == Some(Leaving::Deleted);
    if view.seen.snapshots.iter().any(is_deleted) {
        return view.stuck(Why::Leaving(Leaving::Deleted));
    }
    if let Some(next) = before(view, &Leaving::Renamed(to.clone()), Done::Renamed) {
        return next;
    }
    let mut newest_first: Vec<&SeenSnapshot> = view.seen.snapshots.iter().collect();
    newest_first.sort_by_key(|it| Reverse(rank(it)));
    let rename = |it: &SeenSnapshot| Step::Rename {
        snapshot: it.id.clone(),
        to: to.clone(),
    };
    let steps = newest_first.into_iter().map(rename).collect();
    steps_or_done(steps, Done::Renamed)
}

/// The next step before the first snapshot goes: nobody uses the drive, all snapshots are marked,
/// and lists that have the marks still show that nobody does. `None` once that is so. `done` where
/// the name is another drive's since.
fn before(view: &View, why: &Leaving, done: Done) -> Option<Next> {
    let seen = view.seen;
    let is_marked = |it: &SeenSnapshot| it.leaving.as_ref() == Some(why);
    if !seen.me.leaving.is_empty() {
        let of_another = |it: &SeenSnapshot| !seen.me.leaving.contains(&it.id);
        if seen.snapshots.iter().all(of_another) {
            return Some(Next::Done(done));
        }
        if seen.snapshots.iter().any(of_another) {
            return Some(view.stuck(Why::NotAtRest));
        }
    }
    if !seen.unreadable.is_empty() {
        return Some(view.stuck(Why::Unreadable(seen.unreadable.clone())));
    }
    if let Some(host) = seen.instances.iter().find(|instance| instance.is_live()) {
        return Some(match (host.client(), &host.contact) {
            (Some(Client::Nobody), _) | (None, Contact::NotAsked) => view.stuck(Why::NotAtRest),
            _ => Next::Busy(host.id.clone()),
        });
    }
    if seen.has_volume() {
        return Some(view.stuck(Why::NotAtRest));
    }
    let mut snapshots = seen.snapshots.iter();
    if let Some(pending) = snapshots.find(|it| it.state == SnapshotState::Pending) {
        return Some(view.wait(Waiting::Copy(pending.id.clone())));
    }
    if !view.is_settled() {
        return Some(view.settle());
    }
    let unmarked = seen.snapshots.iter();
    let mut unmarked: Vec<_> = unmarked.filter(|it| !is_marked(it)).collect();
    unmarked.sort_by_key(|it| rank(it));
    let mark = |it: &SeenSnapshot| Step::Mark {
        snapshot: it.id.clone(),
        leaving: why.clone(),
    };
    let steps: Vec<Step> = unmarked.into_iter().map(mark).collect();
    (!steps.is_empty()).then_some(Next::Do(steps))
}

fn rank(it: &SeenSnapshot) -> impl Ord {
    (it.generation, it.kind, it.number)
}

fn steps_or_done(steps: Vec<Step>, done: Done) -> Next {
    if steps.is_empty() {
        Next::Done(done)
    } else {
        Next::Do(steps)
    }
}
