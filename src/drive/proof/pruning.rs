//! A snapshot may be deleted: later ones of the same drive have all that it has.

use std::cmp::Reverse;

use crate::ec2::{Snapshot, SnapshotId, SnapshotState, VolumeId};

use super::{MayPrune, Reread};
use crate::drive::name::Generation;
use crate::drive::observed::{Observed, SeenSnapshot, SeenVolume, Verdict};
use crate::drive::tags;
use crate::drive::tags::SnapshotKind;

/// How many completed checkpoints of a generation are kept while it lasts.
const CHECKPOINTS: usize = 2;

/// A snapshot may be deleted: it is superseded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PruningGrounds {
    snapshot: Facts,
    because: Because,
    by: Vec<SnapshotId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Because {
    /// A checkpoint or a failure, and a completed final snapshot of its generation's line, or of a
    /// higher generation.
    Final,
    /// A checkpoint, and two later completed ones of the same volume and generation.
    Later,
    /// A final snapshot, and completed final ones of higher generations, as many as are to be kept.
    Outdated,
    /// Its drive was made to be thrown away, as the snapshot itself says.
    Scratch,
}

/// What matters of a snapshot, as it is seen and as it is read again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Facts {
    id: SnapshotId,
    state: SnapshotState,
    volume: Option<VolumeId>,
    generation: Generation,
    kind: SnapshotKind,
    number: u32,
}

impl PruningGrounds {
    /// Proves that a checkpoint, or a snapshot that failed, may be deleted, if it may.
    #[must_use]
    pub fn prove(seen: &Observed, snapshot: &SeenSnapshot) -> Option<Self> {
        let facts = Facts::seen(snapshot);
        let final_one = seen
            .snapshots
            .iter()
            .filter(|by| stands(seen, by))
            .map(Facts::seen)
            .find(|by| facts.falls(Because::Final, by));
        if let Some(by) = final_one {
            return Some(Self::new(facts, Because::Final, vec![by.id]));
        }
        let later: Vec<SnapshotId> = seen
            .snapshots
            .iter()
            .map(Facts::seen)
            .filter(|by| facts.falls(Because::Later, by))
            .map(|by| by.id)
            .collect();
        (later.len() >= CHECKPOINTS).then(|| Self::new(facts, Because::Later, later))
    }

    /// Proves that a final snapshot of a drive that is wholly saved may be deleted, if `keep` newer
    /// ones are there.
    #[must_use]
    pub fn prove_outdated(seen: &Observed, snapshot: &SeenSnapshot, keep: usize) -> Option<Self> {
        let at_rest = at_rest(seen);
        let facts = Facts::seen(snapshot);
        let mut newer: Vec<Facts> = seen
            .snapshots
            .iter()
            .map(Facts::seen)
            .filter(|by| facts.falls(Because::Outdated, by))
            .collect();
        newer.sort_by_key(|by| Reverse(by.generation));
        newer.truncate(keep.max(1));
        let is_enough = newer.len() >= keep.max(1);
        let newer = newer.into_iter().map(|by| by.id).collect();
        (at_rest && is_enough).then(|| Self::new(facts, Because::Outdated, newer))
    }

    /// Proves that a snapshot may be deleted whose drive is wholly saved, and was made to be thrown
    /// away: that shows, and counts, when it is read again.
    #[must_use]
    pub fn prove_scratch(seen: &Observed, snapshot: &SeenSnapshot) -> Option<Self> {
        let facts = Facts::seen(snapshot);
        at_rest(seen).then(|| Self::new(facts, Because::Scratch, Vec::new()))
    }

    fn new(snapshot: Facts, because: Because, by: Vec<SnapshotId>) -> Self {
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

    /// What supersedes it, to be read again by id as well.
    #[must_use]
    pub fn by(&self) -> &[SnapshotId] {
        &self.by
    }

    /// Confirms it, if it still holds: read a moment ago, and true of the snapshot and of all that
    /// supersede it, as they were read by id. (What was given to a fork since is of another drive.)
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
            found.is_some_and(|by| self.snapshot.falls(self.because, by))
        });
        let holds = Facts::read(snapshot).as_ref() == Some(&self.snapshot)
            && reread.is_young()
            && match self.because {
                Because::Scratch => tags::is_scratch(&snapshot.tags),
                _ => !self.by.is_empty() && all,
            };
        holds.then(|| MayPrune::of(&self.snapshot.id))
    }
}

impl Facts {
    fn seen(snapshot: &SeenSnapshot) -> Self {
        Self {
            id: snapshot.id.clone(),
            state: snapshot.state,
            volume: snapshot.volume.clone(),
            generation: snapshot.generation,
            kind: snapshot.kind,
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
            number: own.number,
        })
    }

    /// Whether this one has nothing that `by` has not.
    fn falls(&self, because: Because, by: &Self) -> bool {
        let is_final = |facts: &Self| facts.kind != SnapshotKind::Checkpoint;
        let same_line =
            self.volume.is_some() && self.volume == by.volume && self.generation == by.generation;
        let settled = self.state != SnapshotState::Pending;
        let holds = by.state == SnapshotState::Completed && by.id != self.id && settled;
        holds
            && match because {
                Because::Final => {
                    (!is_final(self) || self.state == SnapshotState::Error)
                        && is_final(by)
                        && (same_line || by.generation > self.generation)
                }
                Because::Later => {
                    !is_final(self) && !is_final(by) && same_line && by.number > self.number
                }
                // Nothing else has to have what it has.
                Because::Scratch => false,
                Because::Outdated => {
                    is_final(self) && is_final(by) && by.generation > self.generation
                }
            }
    }
}

/// Whether the drive is wholly saved: no volume, nothing pending or failed, nothing unread.
fn at_rest(seen: &Observed) -> bool {
    let mut snapshots = seen.snapshots.iter();
    !seen.volumes.iter().any(SeenVolume::exists)
        && seen.unreadable.is_empty()
        && snapshots.all(|snapshot| snapshot.state == SnapshotState::Completed)
}

/// Whether a final snapshot stands for its volume: it was looked into, or the volume is gone, which
/// came after a look.
fn stands(seen: &Observed, snapshot: &SeenSnapshot) -> bool {
    let verdict = seen.me.verdicts.get(&snapshot.id);
    let gone = || {
        let volume = snapshot.volume.as_ref().and_then(|id| seen.volume(id));
        volume.is_none_or(|volume| !volume.exists())
    };
    verdict.map_or_else(gone, Verdict::allows)
}
