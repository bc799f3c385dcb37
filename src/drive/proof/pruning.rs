//! Grounds to delete a snapshot that the drive no longer needs.
//!
//! [`PruningGrounds`] are what one sweep observed: later snapshots of the same drive have all that
//! this one has, the drive is a scratch drive, or its user deletes it. They become a [`MayPrune`] only
//! when the snapshot and all that supersede it are re-read by id right before the call.

use std::cmp::Reverse;

use crate::ec2::{Snapshot, SnapshotState};
use crate::ids::{Generation, SnapshotId, Uuid, VolumeId};

use super::{MayPrune, Reread};
use crate::drive::observed::{Observed, SeenInstance, SeenSnapshot, Verdict};
use crate::drive::tags;
use crate::drive::tags::{Leaving, SnapshotKind};

/// How many completed checkpoints of a generation are kept while it lasts.
const CHECKPOINTS: usize = 2;

/// Why a snapshot may be deleted, as a sweep observed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PruningGrounds {
    snapshot: Facts,
    because: PruningReason,
    by: Vec<SnapshotId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PruningReason {
    /// The snapshot is a checkpoint or failed, and there is a completed final snapshot of the same
    /// volume and generation, or of a higher generation.
    Final,
    /// The snapshot is a checkpoint, and there are two later completed ones of the same volume and
    /// generation.
    Later,
    /// The snapshot is final, and there are as many completed final ones of higher generations as
    /// are to be kept.
    Outdated,
    /// The drive is a scratch drive, by the snapshot's own tag.
    Scratch,
    /// The user deletes the drive, by the snapshot's own tag, and nobody uses it.
    Deleted,
}

/// The facts that grounds rest on, from the sweep and from the re-read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Facts {
    id: SnapshotId,
    state: SnapshotState,
    volume: Option<VolumeId>,
    generation: Generation,
    kind: SnapshotKind,
    uuid: Option<Uuid>,
    number: u32,
}

impl PruningGrounds {
    /// The grounds on which a checkpoint, or a snapshot that failed, may be deleted, if there are
    /// any.
    #[must_use]
    pub fn prove(seen: &Observed, snapshot: &SeenSnapshot) -> Option<Self> {
        let facts = Facts::from_seen(snapshot);
        let final_one = seen
            .snapshots
            .iter()
            .filter(|by| stands(seen, by))
            .map(Facts::from_seen)
            .find(|by| facts.is_superseded(PruningReason::Final, by));
        if let Some(by) = final_one {
            return Some(Self::new(facts, PruningReason::Final, vec![by.id]));
        }
        let later: Vec<SnapshotId> = seen
            .snapshots
            .iter()
            .map(Facts::from_seen)
            .filter(|by| facts.is_superseded(PruningReason::Later, by))
            .map(|by| by.id)
            .collect();
        (later.len() >= CHECKPOINTS).then(|| Self::new(facts, PruningReason::Later, later))
    }

    /// The grounds on which a final snapshot may be deleted, if the drive is wholly saved and has
    /// `keep` newer ones.
    #[must_use]
    pub fn prove_outdated(seen: &Observed, snapshot: &SeenSnapshot, keep: usize) -> Option<Self> {
        let at_rest = at_rest(seen);
        let facts = Facts::from_seen(snapshot);
        let mut newer: Vec<Facts> = seen
            .snapshots
            .iter()
            .map(Facts::from_seen)
            .filter(|by| facts.is_superseded(PruningReason::Outdated, by))
            .collect();
        newer.sort_by_key(|by| Reverse(by.generation));
        newer.truncate(keep.max(1));
        let is_enough = newer.len() >= keep.max(1);
        let newer = newer.into_iter().map(|by| by.id).collect();
        (at_rest && is_enough).then(|| Self::new(facts, PruningReason::Outdated, newer))
    }

    /// The grounds on which a snapshot of a scratch drive may be deleted, if the drive is wholly
    /// saved. Its tag is checked on the re-read.
    #[must_use]
    pub fn prove_scratch(seen: &Observed, snapshot: &SeenSnapshot) -> Option<Self> {
        let facts = Facts::from_seen(snapshot);
        at_rest(seen).then(|| Self::new(facts, PruningReason::Scratch, Vec::new()))
    }

    /// The grounds on which a snapshot of a drive that is being deleted may go: all of the drive's are
    /// marked, it has neither an instance nor a volume, and no older snapshot would be left as its
    /// newest. To be made on settled lists alone.
    #[must_use]
    pub fn prove_deleted(seen: &Observed, snapshot: &SeenSnapshot) -> Option<Self> {
        let mut all = seen.snapshots.iter();
        let is_marked = all
            .all(|it| it.leaving == Some(Leaving::Deleted) && it.state != SnapshotState::Pending);
        let is_used = seen.instances.iter().any(SeenInstance::is_live) || seen.has_volume();
        let newest = seen.snapshots.iter().map(|it| it.generation).max();
        let oldest = seen.snapshots.iter().map(|it| it.generation).min();
        let is_last = Some(snapshot.generation) < newest || newest == oldest;
        let holds = is_marked && !is_used && is_last && seen.unreadable.is_empty();
        holds.then(|| {
            Self::new(
                Facts::from_seen(snapshot),
                PruningReason::Deleted,
                Vec::new(),
            )
        })
    }

    fn new(snapshot: Facts, because: PruningReason, by: Vec<SnapshotId>) -> Self {
        Self {
            snapshot,
            because,
            by,
        }
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &SnapshotId {
        &self.snapshot.id
    }

    /// The snapshot's generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.snapshot.generation
    }

    /// The snapshots that supersede it, to be re-read as well.
    #[must_use]
    pub fn by(&self) -> &[SnapshotId] {
        &self.by
    }

    /// The permit, if the grounds hold for the re-read snapshot and all that supersede it. One that
    /// was given to a fork since is of another drive, and does not count.
    #[must_use]
    pub fn confirm(
        &self,
        reread: Reread,
        snapshot: &Snapshot,
        by: &[Snapshot],
    ) -> Option<MayPrune> {
        let drive = snapshot.tags.get(tags::DRIVE);
        let read: Vec<Facts> = by
            .iter()
            .filter(|by| by.tags.get(tags::DRIVE) == drive)
            .filter_map(Facts::read)
            .collect();
        let all = self.by.iter().all(|id| {
            let found = read.iter().find(|facts| facts.id == *id);
            found.is_some_and(|by| self.snapshot.is_superseded(self.because, by))
        });
        let holds = Facts::read(snapshot).as_ref() == Some(&self.snapshot)
            && reread.is_young()
            && match self.because {
                PruningReason::Scratch => tags::is_disposable(&snapshot.tags),
                PruningReason::Deleted => Leaving::read(&snapshot.tags) == Some(Leaving::Deleted),
                _ => !self.by.is_empty() && all,
            };
        holds.then(|| MayPrune::new(&self.snapshot.id))
    }
}

impl Facts {
    fn from_seen(snapshot: &SeenSnapshot) -> Self {
        Self {
            id: snapshot.id.clone(),
            state: snapshot.state,
            volume: snapshot.volume.clone(),
            generation: snapshot.generation,
            kind: snapshot.kind,
            uuid: snapshot.uuid,
            number: snapshot.number,
        }
    }

    fn read(snapshot: &Snapshot) -> Option<Self> {
        let own = tags::read_snapshot(&snapshot.tags).ok()?;
        Some(Self {
            id: snapshot.id.clone(),
            state: snapshot.state,
            volume: snapshot.volume.clone(),
            generation: own.generation,
            kind: own.kind,
            uuid: own.uuid,
            number: own.number,
        })
    }

    /// Whether `later` may hold the file system of this one.
    fn is_in(&self, later: &Self) -> bool {
        self.uuid.is_none() || self.uuid == later.uuid
    }

    /// Whether `by` supersedes this one for that reason. One of another file system never does: it has
    /// nothing of this one's.
    fn is_superseded(&self, because: PruningReason, by: &Self) -> bool {
        let is_final = |facts: &Self| facts.kind != SnapshotKind::Checkpoint;
        let same_volume =
            self.volume.is_some() && self.volume == by.volume && self.generation == by.generation;
        let settled = self.state != SnapshotState::Pending && self.is_in(by);
        let holds = by.state == SnapshotState::Completed && by.id != self.id && settled;
        holds
            && match because {
                PruningReason::Final => {
                    (!is_final(self) || self.state == SnapshotState::Error)
                        && is_final(by)
                        && (same_volume || by.generation > self.generation)
                }
                PruningReason::Later => {
                    !is_final(self) && !is_final(by) && same_volume && by.number > self.number
                }
                // It needs no other snapshot.
                PruningReason::Scratch | PruningReason::Deleted => false,
                PruningReason::Outdated => {
                    is_final(self) && is_final(by) && by.generation > self.generation
                }
            }
    }
}

/// Whether the drive is wholly saved: no volume, not even one that is thrown away and rests on a
/// snapshot, nothing pending or failed, nothing unreadable.
fn at_rest(seen: &Observed) -> bool {
    let mut snapshots = seen.snapshots.iter();
    !seen.has_volume()
        && seen.unreadable.is_empty()
        && snapshots.all(|snapshot| snapshot.state == SnapshotState::Completed)
}

/// Whether a final snapshot stands for its volume: this process verified it, or the volume is gone,
/// which xdrive deletes only after a verification.
fn stands(seen: &Observed, snapshot: &SeenSnapshot) -> bool {
    let verdict = seen.me.verdicts.get(&snapshot.id);
    let gone = || {
        let volume = snapshot.volume.as_ref().and_then(|id| seen.volume(id));
        volume.is_none_or(|volume| !volume.exists())
    };
    verdict.map_or_else(gone, Verdict::allows)
}
