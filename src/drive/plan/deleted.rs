//! The way to a deleted drive: mark all snapshots of a drive at rest, look again, delete them.
//!
//! EC2 has no transactions, so this is announce, settle, look, act, as for a mount. A connect that
//! sees the mark never mounts; one that looked before the mark has an instance or a volume by then,
//! which the look after it shows. The newest snapshot is the last to be marked and the last to go:
//! whatever interrupts this leaves a drive that is whole, or one that is being deleted, never an
//! older one.

use super::super::hosts::Client;
use super::super::observed::{SeenSnapshot, SeenVolume};
use super::super::proof::PruningGrounds;
use super::super::stuck::Why;
use super::step::{Done, Next, Step, View, Waiting};
use crate::ec2::SnapshotState;

/// Plans the deletion of the whole drive.
pub(super) fn deleted(view: &View) -> Next {
    let seen = view.seen;
    if !seen.unreadable.is_empty() {
        return view.stuck(Why::Unreadable(seen.unreadable.clone()));
    }
    if let Some(host) = seen.instances.iter().find(|instance| instance.is_live()) {
        return match host.client() {
            Some(Client::Nobody) => view.stuck(Why::NotAtRest),
            _ => Next::Busy(host.id.clone()),
        };
    }
    if seen.volumes.iter().any(SeenVolume::exists) {
        return view.stuck(Why::NotAtRest);
    }
    let mut snapshots = seen.snapshots.iter();
    if let Some(pending) = snapshots.find(|it| it.state == SnapshotState::Pending) {
        return view.wait(Waiting::Copy(pending.id.clone()));
    }
    if !view.is_settled() {
        return view.settle();
    }
    let mut unmarked: Vec<_> = seen
        .snapshots
        .iter()
        .filter(|snapshot| !snapshot.is_deleting)
        .collect();
    unmarked.sort_by_key(|snapshot| (snapshot.generation, snapshot.kind, snapshot.number));
    if !unmarked.is_empty() {
        let mark = |snapshot: &SeenSnapshot| Step::MarkDeleting(snapshot.id.clone());
        return Next::Do(unmarked.into_iter().map(mark).collect());
    }
    let grounds = seen.snapshots.iter();
    let grounds = grounds.filter_map(|snapshot| PruningGrounds::prove_deleted(seen, snapshot));
    let steps: Vec<Step> = grounds.map(Step::Discard).collect();
    if steps.is_empty() {
        Next::Done(Done::Deleted)
    } else {
        Next::Do(steps)
    }
}
