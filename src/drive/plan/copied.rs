//! The way to a drive that begins as a copy: of another drive's snapshot, or of a snapshot or volume
//! that is no drive's. Nothing else of the new drive is there.
//!
//! Whoever copies looks first, on settled lists, and again after the copy: a drive that somebody makes
//! meanwhile is seen then. A copy that came too late is never taken for the newest state either: the
//! drive has two lineages then ([`super::lineage`]), and a person chooses. All copies of one source
//! have the same `xdrive:op`, so one whose answer was lost, or that a killed run made, is found by
//! it.

use super::super::observed::{SeenInstance, SeenSnapshot};
use super::super::source::CopyOrder;
use super::super::stuck::Why;
use super::step::{Done, Next, Step, View, Waiting};
use crate::ec2::SnapshotState;

/// Plans the copy.
pub(super) fn copied(view: &View, order: &CopyOrder) -> Next {
    let seen = view.seen;
    if !seen.unreadable.is_empty() {
        return view.stuck(Why::Unreadable(seen.unreadable.clone()));
    }
    let is_own = |snapshot: &SeenSnapshot| snapshot.is_forked && snapshot.op == order.op;
    let is_taken = seen.instances.iter().any(SeenInstance::is_live)
        || seen.has_volume()
        || seen.snapshots.iter().any(|snapshot| !is_own(snapshot));
    if is_taken {
        return view.stuck(Why::NotNew);
    }
    if let Some(leaving) = seen.snapshots.iter().find_map(|it| it.leaving.clone()) {
        return view.stuck(Why::Leaving(leaving));
    }
    let first = |state: SnapshotState| seen.snapshots.iter().find(|it| it.state == state);
    if let Some(copy) = first(SnapshotState::Completed) {
        if !view.is_settled() {
            return view.settle();
        }
        return Next::Done(Done::Copied(copy.id.clone(), copy.generation));
    }
    if let Some(copy) = first(SnapshotState::Pending) {
        return view.wait(Waiting::Copy(copy.id.clone()));
    }
    if let Some(copy) = first(SnapshotState::Error) {
        return view.stuck(Why::CopyFailed(copy.id.clone()));
    }
    if !view.is_settled() {
        return view.settle();
    }
    Next::Do(vec![Step::CopySnapshot(Box::new(order.clone()))])
}
