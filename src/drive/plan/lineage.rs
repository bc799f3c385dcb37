//! The newest state of the drive, and whether it has one lineage or several.
//!
//! Newest is the highest generation, never the latest time: a copied snapshot has a new one. A
//! volume and the snapshots of it are one lineage; anything else of the same generation is another.

use crate::ec2::{SnapshotState, VolumeState};
use crate::ids::{Generation, SnapshotId, VolumeId};

use crate::drive::observed::{Observed, SeenSnapshot, SeenVolume};
use crate::drive::proof::saves;
use crate::drive::provenance::Provenance;
use crate::drive::stuck::{ForeignHead, Head, Why};
use crate::drive::tags::{Leaving, SnapshotKind};

/// The volume id that AWS gives to a copied snapshot (EBS user guide, *Copy an EBS snapshot*).
const COPIED: &str = "vol-ffffffff";

/// The newest state of a drive.
#[derive(Debug)]
pub(super) enum Newest<'a> {
    /// There is no drive.
    Nothing,
    /// A volume that was attached at least once.
    Volume(&'a SeenVolume),
    /// A completed snapshot.
    Snapshot(&'a SeenSnapshot),
    /// A pending snapshot, and its volume is gone.
    Pending(&'a SeenSnapshot),
    /// A snapshot that failed, and its volume is gone.
    Failed(&'a SeenSnapshot),
    /// More than one lineage.
    Forked(Vec<(Head, Generation)>),
}

/// Whether the volume can hold no data although it was attached: its first format was never
/// recorded.
pub(super) fn is_certainly_empty(seen: &Observed, volume: &SeenVolume) -> bool {
    volume.is_unformatted() && seen.snapshots_of(&volume.id).next().is_none()
}

/// Whether the volume may be the only one with its state. (If its generation was never raised,
/// xdrive did not attach it, and somebody else may have written to it. The same if its snapshot was
/// deleted.)
pub(super) fn is_used(seen: &Observed, volume: &SeenVolume) -> bool {
    volume.exists()
        && (!volume.is_unused() || volume.holder().is_some() || is_last(seen, volume))
        && !is_certainly_empty(seen, volume)
}

/// Whether a never-attached volume is the only one with the newest state, because its source
/// snapshot was deleted. Of several alike it is the earliest.
fn is_last(seen: &Observed, volume: &SeenVolume) -> bool {
    let is_before = |other: &SeenVolume| (other.created, &other.id) < (volume.created, &volume.id);
    volume.base > Generation::EMPTY
        && volume.state != VolumeState::Error
        && seen
            .snapshots
            .iter()
            .all(|snapshot| snapshot.generation < volume.base)
        && seen
            .volumes
            .iter()
            .filter(|other| other.exists() && other.id != volume.id)
            .all(|other| {
                let alike = other.is_unused() && !is_before(other);
                other.generation < volume.base || other.generation == volume.base && alike
            })
}

/// Whether the drive was unmounted before the volume's last generation began: then it is so still,
/// whether or not it was mounted since by a host that has closed.
pub(super) fn was_clean(seen: &Observed, volume: &SeenVolume) -> bool {
    seen.snapshots
        .iter()
        .filter(|snapshot| snapshot.kind == SnapshotKind::Clean)
        .filter(|snapshot| snapshot.generation.next() == volume.generation)
        .any(|snapshot| {
            snapshot.volume.as_ref() == Some(&volume.id)
                || volume.snapshot.as_ref() == Some(&snapshot.id)
        })
}

/// Whether all that the volume holds is in a snapshot that is completed or pending.
pub(super) fn is_being_saved(seen: &Observed, volume: &SeenVolume) -> bool {
    seen.snapshots_of(&volume.id)
        .any(|snapshot| saves(snapshot, volume) && snapshot.state != SnapshotState::Error)
}

/// Whether all that the volume holds is in a completed snapshot.
pub(super) fn is_saved(seen: &Observed, volume: &SeenVolume) -> bool {
    seen.snapshots_of(&volume.id)
        .any(|snapshot| saves(snapshot, volume) && snapshot.state == SnapshotState::Completed)
}

/// The newest state.
pub(super) fn newest(seen: &Observed) -> Newest<'_> {
    let volumes: Vec<&SeenVolume> = seen
        .volumes
        .iter()
        .filter(|volume| is_used(seen, volume))
        // A volume that failed and is saved is left to its snapshot.
        .filter(|volume| volume.state != VolumeState::Error || !is_saved(seen, volume))
        .collect();
    let generations = volumes
        .iter()
        .map(|volume| volume.generation)
        .chain(seen.snapshots.iter().map(|snapshot| snapshot.generation));
    let Some(top) = generations.max() else {
        return Newest::Nothing;
    };
    if let Some(heads) = strangers(seen, &volumes) {
        return Newest::Forked(heads);
    }
    let snapshots: Vec<&SeenSnapshot> = seen
        .snapshots
        .iter()
        .filter(|snapshot| snapshot.generation == top)
        .collect();
    let forks = forks(seen, &volumes, &snapshots, top);
    if forks.len() > 1 {
        return Newest::Forked(forks);
    }
    match volumes.iter().find(|volume| volume.generation == top) {
        Some(volume) => Newest::Volume(volume),
        None => best(&snapshots),
    }
}

/// Why the newest state is not taken over unasked, if it may be none that xdrive made of the one before.
/// A person who named it with `--from` has chosen.
pub(super) fn foreign(seen: &Observed, newest: &Newest, from: Option<&Head>) -> Option<Why> {
    let (head, volume, own) = match newest {
        Newest::Volume(it) => {
            let head = Head::Volume(it.id.clone());
            (head, Some(&it.id), it.provenance())
        }
        Newest::Snapshot(it) | Newest::Pending(it) | Newest::Failed(it) => {
            let head = Head::Snapshot(it.id.clone());
            (head, it.volume.as_ref(), it.provenance())
        }
        Newest::Nothing | Newest::Forked(_) => return None,
    };
    if from == Some(&head) {
        return None;
    }
    let volumes = seen.volumes.iter().filter(|volume| is_used(seen, volume));
    let volumes = volumes.map(|it| (Some(&it.id), it.provenance()));
    let snapshots = seen.snapshots.iter();
    let snapshots = snapshots.map(|it| (it.volume.as_ref(), it.provenance()));
    let all: Vec<(Option<&VolumeId>, Provenance)> = volumes.chain(snapshots).collect();
    // What is of one volume has its file system, as EC2 itself says.
    let doubt = |volume: Option<&VolumeId>, own: Provenance| {
        let is_same = |other: Option<&VolumeId>| {
            other == volume && volume.is_some_and(|it| it.as_str() != COPIED)
        };
        let others = all.iter().filter(|(other, _)| !is_same(*other));
        own.doubt(others.map(|(_, it)| *it))
    };
    let foreign = doubt(volume, own)?;
    let is_sound = |it: &&SeenSnapshot| {
        it.state == SnapshotState::Completed && doubt(it.volume.as_ref(), it.provenance()).is_none()
    };
    let sound = seen.snapshots.iter().filter(is_sound);
    let older = sound.max_by_key(|it| (it.generation, it.kind, it.number));
    Some(Why::Foreign(Box::new(ForeignHead {
        head,
        generation: own.generation,
        foreign,
        older: older.map(|it| Head::Snapshot(it.id.clone())),
    })))
}

/// Whether the snapshot is not of the lineage that began with the copy `root`: all of that is newer.
pub(super) fn is_stranger(root: &SeenSnapshot, other: &SeenSnapshot) -> bool {
    root.is_forked && other.generation <= root.generation && other.op != root.op
}

/// Whether the drive has two lineages because a copy came to begin one that was made before.
pub(super) fn has_strangers(seen: &Observed) -> bool {
    let mut roots = seen.snapshots.iter();
    roots.any(|root| seen.snapshots.iter().any(|other| is_stranger(root, other)))
}

/// The two lineages of a drive that was made before a copy came to begin it.
fn strangers(seen: &Observed, volumes: &[&SeenVolume]) -> Option<Vec<(Head, Generation)>> {
    let mut roots: Vec<&SeenSnapshot> = seen.snapshots.iter().filter(|it| it.is_forked).collect();
    roots.sort_by_key(|root| root.generation);
    roots.into_iter().rev().find_map(|root| {
        let volume = volumes.iter().filter(|it| it.generation <= root.generation);
        let volume = volume.map(|it| (Head::Volume(it.id.clone()), it.generation));
        let snapshots = seen.snapshots.iter().filter(|it| is_stranger(root, it));
        let snapshot = snapshots.max_by_key(|it| (it.generation, it.kind, it.number));
        let snapshot = snapshot.map(|it| (Head::Snapshot(it.id.clone()), it.generation));
        let stranger = volume
            .chain(snapshot)
            .max_by_key(|(_, generation)| *generation)?;
        let head = Head::Snapshot(root.id.clone());
        Some(vec![(head, root.generation), stranger])
    })
}

/// Why the newest state leaves the drive, if its user deletes or renames that.
pub(super) fn leaving(seen: &Observed) -> Option<&Leaving> {
    let used = seen.volumes.iter().filter(|volume| is_used(seen, volume));
    let volumes = used.map(|volume| volume.generation).max();
    let top = seen
        .snapshots
        .iter()
        .map(|snapshot| snapshot.generation)
        .max();
    let mut newest = seen
        .snapshots
        .iter()
        .filter(|snapshot| Some(snapshot.generation) == top && top >= volumes);
    newest.find_map(|snapshot| snapshot.leaving.as_ref())
}

/// The best completed snapshot older than `failed`.
pub(super) fn older(seen: &Observed, failed: &SeenSnapshot) -> Option<SnapshotId> {
    seen.snapshots
        .iter()
        .filter(|snapshot| snapshot.state == SnapshotState::Completed)
        .filter(|snapshot| snapshot.generation <= failed.generation)
        .max_by_key(|snapshot| (snapshot.generation, snapshot.kind, snapshot.number))
        .map(|snapshot| snapshot.id.clone())
}

/// The newest completed snapshot.
pub(super) fn last_saved(seen: &Observed) -> Option<(SnapshotId, Generation)> {
    seen.snapshots
        .iter()
        .filter(|snapshot| snapshot.state == SnapshotState::Completed)
        .max_by_key(|snapshot| (snapshot.generation, snapshot.kind, snapshot.number))
        .map(|snapshot| (snapshot.id.clone(), snapshot.generation))
}

/// The newest final snapshot that is completed or pending.
pub(super) fn last_begun(seen: &Observed) -> Option<(SnapshotId, Generation)> {
    seen.snapshots
        .iter()
        .filter(|snapshot| snapshot.is_final() && snapshot.state != SnapshotState::Error)
        .max_by_key(|snapshot| (snapshot.generation, snapshot.kind))
        .map(|snapshot| (snapshot.id.clone(), snapshot.generation))
}

/// The heads to choose from: one for each lineage that is at `top`, and for each volume below it
/// whose state is in no snapshot.
fn forks(
    seen: &Observed,
    volumes: &[&SeenVolume],
    snapshots: &[&SeenSnapshot],
    top: Generation,
) -> Vec<(Head, Generation)> {
    let mut lineages: Vec<Option<&VolumeId>> = Vec::new();
    let mut heads = Vec::new();
    for volume in volumes {
        if volume.generation == top || !is_being_saved(seen, volume) {
            lineages.push(Some(&volume.id));
            heads.push((Head::Volume(volume.id.clone()), volume.generation));
        }
    }
    let mut best_first = snapshots.to_vec();
    best_first.sort_by_key(|snapshot| {
        let completed = snapshot.state == SnapshotState::Completed;
        (
            std::cmp::Reverse((completed, snapshot.kind, snapshot.number)),
            &snapshot.id,
        )
    });
    for snapshot in best_first {
        let lineage = lineage(seen, snapshot);
        if !lineages.contains(&lineage) {
            lineages.push(lineage);
            heads.push((Head::Snapshot(snapshot.id.clone()), snapshot.generation));
        }
    }
    heads
}

/// The volume that identifies a snapshot's lineage: its own; for a copy that of the original, which
/// has the same [`crate::drive::tags::OP`].
fn lineage<'a>(seen: &'a Observed, snapshot: &'a SeenSnapshot) -> Option<&'a VolumeId> {
    let is_copy = |volume: &VolumeId| volume.as_str() == COPIED;
    seen.snapshots
        .iter()
        .filter(|other| other.op == snapshot.op)
        .filter_map(|other| other.volume.as_ref())
        .find(|volume| !is_copy(volume))
        .or(snapshot.volume.as_ref())
}

/// The newest state of one lineage whose volume is gone, from its snapshots. A checkpoint counts
/// only if there is no final snapshot, not even a failed one: never silently the older one.
fn best<'a>(snapshots: &[&'a SeenSnapshot]) -> Newest<'a> {
    let by = |state, is_final| {
        snapshots
            .iter()
            .filter(|snapshot| snapshot.state == state && snapshot.is_final() == is_final)
            .max_by_key(|snapshot| (snapshot.kind, snapshot.number, &snapshot.id))
            .copied()
    };
    if let Some(snapshot) = by(SnapshotState::Completed, true) {
        Newest::Snapshot(snapshot)
    } else if let Some(snapshot) = by(SnapshotState::Pending, true) {
        Newest::Pending(snapshot)
    } else if let Some(snapshot) = by(SnapshotState::Error, true) {
        Newest::Failed(snapshot)
    } else if let Some(snapshot) = by(SnapshotState::Completed, false) {
        Newest::Snapshot(snapshot)
    } else if let Some(snapshot) = by(SnapshotState::Pending, false) {
        Newest::Pending(snapshot)
    } else if let Some(snapshot) = by(SnapshotState::Error, false) {
        Newest::Failed(snapshot)
    } else {
        Newest::Nothing
    }
}
