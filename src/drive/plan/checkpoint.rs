//! Checkpoints: whether one may be taken of the drive in use, and which ones are superseded.
//!
//! A checkpoint is crash-consistent, taken without a freeze, and proves nothing: no deletion rests
//! on it, and a surviving volume or any final snapshot of its generation precedes it.

use crate::ec2::SnapshotState;
use crate::host::Mounted;
use crate::ids::SnapshotId;

use super::super::hosts::Client;
use super::super::observed::{Observed, SeenVolume};
use super::super::proof::{FailedSnapshot, PruningGrounds};
use super::super::tags::SnapshotKind;
use super::lineage;
use super::step::{Step, View};

/// Why no checkpoint was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// The drive is mounted on no host that answers and has a client.
    #[error("the drive is not mounted on a host that answers")]
    NotMounted,
    /// The last one is not completed. EBS allows five at a time, and the last snapshot of a session
    /// must not have to wait for them.
    #[error("the last checkpoint {0} is not completed yet")]
    Pending(SnapshotId),
    /// EBS accepts one snapshot of a volume every 15 seconds.
    #[error("the last snapshot was taken less than 15 s ago")]
    TooSoon,
}

/// The step that takes a checkpoint now, once the drive is synced.
pub(in super::super) fn checkpoint(view: &View) -> Result<Step, Skipped> {
    let seen = view.seen;
    let volume = mounted(seen).ok_or(Skipped::NotMounted)?;
    let pending = seen
        .snapshots_of(&volume.id)
        .find(|snapshot| snapshot.state == SnapshotState::Pending);
    if let Some(pending) = pending {
        return Err(Skipped::Pending(pending.id.clone()));
    }
    let attempts = seen.me.attempts.iter();
    let last = attempts
        .filter(|attempt| attempt.volume == volume.id)
        .map(|attempt| attempt.at)
        .max();
    if last.is_some_and(|last| view.now.since(last) < view.timing.snapshot_gap) {
        return Err(Skipped::TooSoon);
    }
    Ok(Step::Snapshot {
        volume: volume.id.clone(),
        generation: volume.generation,
        kind: SnapshotKind::Checkpoint,
    })
}

/// The volume that is mounted on a host with a client: this process, or another one, such as a run, of
/// which a tender takes a checkpoint.
fn mounted(seen: &Observed) -> Option<&SeenVolume> {
    seen.instances
        .iter()
        .filter(|instance| instance.is_live())
        .filter_map(|instance| Some((instance, instance.view()?)))
        .filter(|(_, view)| view.client != Client::Nobody && !view.closing)
        .find_map(|(instance, view)| match &view.mounted {
            Mounted::Volume(id) => seen
                .held_by(&instance.id)
                .find(|volume| volume.id == *id && !volume.is_unused()),
            Mounted::Nothing | Mounted::Frozen(_) => None,
        })
}

/// The steps that delete superseded checkpoints and failed ones, without those that could not be
/// deleted in this run.
pub(in super::super) fn prune(seen: &Observed) -> Vec<Step> {
    let checkpoints = seen
        .snapshots
        .iter()
        .filter(|snapshot| !seen.me.not_pruned.contains(&snapshot.id))
        .filter(|snapshot| snapshot.state != SnapshotState::Pending);
    checkpoints
        .filter_map(|snapshot| {
            let superseded = PruningGrounds::prove(seen, snapshot).map(Step::Prune);
            superseded.or_else(|| {
                let is_checkpoint = snapshot.kind == SnapshotKind::Checkpoint;
                let failed = is_checkpoint.then(|| FailedSnapshot::prove(seen, snapshot))?;
                failed.map(Step::DeleteSnapshot)
            })
        })
        .collect()
}

/// The steps that delete completed final snapshots beyond the newest `keep` (at least one) of a
/// drive that is wholly saved: no volume, nothing pending, nothing that cannot be read.
pub(in super::super) fn outdated(seen: &Observed, keep: usize) -> Vec<Step> {
    if lineage::has_strangers(seen) {
        return Vec::new();
    }
    seen.snapshots
        .iter()
        .filter(|snapshot| !seen.me.not_pruned.contains(&snapshot.id))
        .filter_map(|snapshot| PruningGrounds::prove_outdated(seen, snapshot, keep))
        .map(Step::Prune)
        .collect()
}
