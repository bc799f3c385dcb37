//! The verification of a snapshot, once, before its volume may be deleted.

use crate::ec2::{SnapshotState, VolumeState};

use super::super::observed::{Observed, SeenSnapshot, SeenVolume, Verdict};
use super::super::proof::saves;
use super::super::stuck::{Head, Why};
use super::step::{Next, Step, View, Waiting};

/// The next step before a completed snapshot of the volume may stand for it: `None` if one may, or
/// if there is none.
pub(super) fn verify(view: &View, volume: &SeenVolume) -> Option<Next> {
    let seen = view.seen;
    let saving: Vec<&SeenSnapshot> = seen
        .snapshots_of(&volume.id)
        .filter(|snapshot| saves(snapshot, volume) && snapshot.state == SnapshotState::Completed)
        .collect();
    let verdict = |snapshot: &SeenSnapshot| seen.me.verdicts.get(&snapshot.id);
    if saving.iter().any(|snapshot| stands(seen, snapshot)) {
        return None;
    }
    let mut wait = None;
    for snapshot in &saving {
        let again = match verdict(snapshot) {
            None => None,
            Some(Verdict::Open { last, .. }) => {
                let waiting = Waiting::Verdict(snapshot.id.clone());
                view.wait_within(waiting, *last, view.timing.verdict_gap)
            }
            Some(_) => continue,
        };
        match again {
            Some(next) => wait = wait.or(Some(next)),
            None => {
                return Some(Next::Do(vec![Step::Verify {
                    snapshot: snapshot.id.clone(),
                    uuid: snapshot.uuid.or(volume.uuid),
                    kind: snapshot.kind,
                }]));
            }
        }
    }
    wait.or_else(|| {
        saving
            .iter()
            .find_map(|snapshot| match verdict(snapshot) {
                Some(Verdict::Unsound(problem)) => Some((snapshot, problem)),
                _ => None,
            })
            .map(|(snapshot, problem)| {
                view.stuck(Why::Unsound {
                    snapshot: snapshot.id.clone(),
                    volume: volume.id.clone(),
                    problem: problem.clone(),
                    ways: ways(seen, volume, snapshot),
                })
            })
    })
}

/// Whether this process has found that a completed snapshot may stand for its volume.
pub(super) fn stands(seen: &Observed, snapshot: &SeenSnapshot) -> bool {
    seen.me
        .verdicts
        .get(&snapshot.id)
        .is_some_and(Verdict::allows)
}

/// The heads that `--from` can choose instead: the volume; where that failed, the completed
/// snapshots, the unsound one last.
fn ways(seen: &Observed, volume: &SeenVolume, unsound: &SeenSnapshot) -> Vec<Head> {
    if volume.state != VolumeState::Error {
        return vec![Head::Volume(volume.id.clone())];
    }
    let mut others: Vec<&SeenSnapshot> = seen
        .snapshots
        .iter()
        .filter(|snapshot| snapshot.state == SnapshotState::Completed)
        .collect();
    others.sort_by_key(|snapshot| {
        let rank = (snapshot.generation, snapshot.kind, snapshot.number);
        (snapshot.id == unsound.id, std::cmp::Reverse(rank))
    });
    others
        .into_iter()
        .map(|snapshot| Head::Snapshot(snapshot.id.clone()))
        .collect()
}
