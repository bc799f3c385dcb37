//! Proofs: why a thing may be destroyed, made only by observing.
//!
//! A proof is made from one look and dies [`LIFE`] after it, by the boot-time clock: a laptop that
//! slept comes back with none. Right before the call the thing itself is read again by id and the
//! proof has to hold for that as well. Nothing else in xdrive can delete a volume or a snapshot or
//! terminate an instance: those calls take a proof.

mod superseded;

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{
    Instance, InstanceId, Snapshot, SnapshotId, SnapshotState, Volume, VolumeId, VolumeState,
};

use super::name::Generation;
use super::observed::{DEVICE, Observed, SeenInstance, SeenSnapshot, SeenVolume, Verdict};
use super::tags::{self, SnapshotKind, VolumeTags};

pub use superseded::Superseded;

/// How long an observation may be acted upon.
pub const LIFE: Duration = Duration::from_secs(5);

/// An instance may be terminated (P2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quiet {
    instance: InstanceId,
    because: QuietBecause,
    at: BootTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum QuietBecause {
    /// No volume of the drive is attached there, so none is mounted.
    NotAttached,
    /// The host said that it has closed; it never mounts again.
    Closed,
    /// Its lease, which ended then, is past by more than it takes a host to switch itself off,
    /// and it is silent.
    LeaseOver(Timestamp),
}

/// A volume may be deleted (P1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spent {
    volume: VolumeId,
    because: SpentBecause,
    at: BootTime,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SpentBecause {
    /// It was never attached, and what it was made from is there still, or something newer.
    Unused(Generation, Option<SnapshotId>),
    /// A completed snapshot of it, no checkpoint, carries its generation, and holds the drive as
    /// far as that could be looked at.
    Saved(SnapshotId, Generation),
    /// It was created empty and nobody was ever handed it: it is not marked formatted.
    Unformatted,
}

/// A snapshot may be deleted: it failed, and its volume is there to take another of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failed {
    snapshot: SnapshotId,
    volume: VolumeId,
    at: BootTime,
}

impl Quiet {
    /// Proves that `instance` may be terminated, if it may.
    #[must_use]
    pub fn prove(seen: &Observed, instance: &SeenInstance) -> Option<Self> {
        let held: Vec<&SeenVolume> = seen.held_by(&instance.id).collect();
        let kept = held.iter().all(|volume| {
            volume
                .attachment
                .as_ref()
                .is_some_and(|attachment| !attachment.delete_on_termination)
        });
        let because = if held.is_empty() {
            QuietBecause::NotAttached
        } else if seen.is_closed(instance) && kept {
            QuietBecause::Closed
        } else if let Some(lease) = instance.lease
            && instance.view().is_none()
            && seen.began >= lease.off_by
            && kept
        {
            QuietBecause::LeaseOver(lease.until)
        } else {
            return None;
        };
        Some(Self {
            instance: instance.id.clone(),
            because,
            at: seen.proven,
        })
    }

    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Whether it still holds: young enough at `now`, and true of the instance as just read by id.
    #[must_use]
    pub fn holds(&self, now: BootTime, instance: &Instance) -> bool {
        let mut drives = instance
            .mappings
            .iter()
            .filter(|mapping| mapping.device == DEVICE);
        let quiet = match self.because {
            QuietBecause::NotAttached => drives.next().is_none(),
            QuietBecause::Closed => drives.all(|mapping| !mapping.delete_on_termination),
            QuietBecause::LeaseOver(until) => {
                tags::until(&instance.tags) == Some(until)
                    && drives.all(|mapping| !mapping.delete_on_termination)
            }
        };
        instance.id == self.instance && now.since(self.at) <= LIFE && quiet
    }
}

impl Spent {
    /// Proves that `volume` may be deleted, if it may.
    #[must_use]
    pub fn prove(seen: &Observed, volume: &SeenVolume) -> Option<Self> {
        if !volume.is_free() {
            return None;
        }
        let because = if volume.is_unused() {
            let holds_state = volume.base > Generation::EMPTY && volume.state != VolumeState::Error;
            let origin = match origin(seen, volume).filter(|_| holds_state) {
                None if holds_state => return None,
                origin => origin.map(|snapshot| snapshot.id.clone()),
            };
            SpentBecause::Unused(volume.base, origin)
        } else if let Some(snapshot) = seen
            .snapshots_of(&volume.id)
            .filter(|snapshot| saves(snapshot, volume))
            .filter(|snapshot| snapshot.state == SnapshotState::Completed)
            // Whoever reads an old list must not see the volume gone and nothing in its place.
            .filter(|snapshot| snapshot.is_everywhere)
            .find(|snapshot| {
                let verdict = seen.me.verdicts.get(&snapshot.id);
                verdict.is_some_and(Verdict::allows)
            })
        {
            SpentBecause::Saved(snapshot.id.clone(), volume.generation)
        } else if volume.is_unformatted() && seen.snapshots_of(&volume.id).next().is_none() {
            SpentBecause::Unformatted
        } else {
            return None;
        };
        Some(Self {
            volume: volume.id.clone(),
            because,
            at: seen.proven,
        })
    }

    /// The volume.
    #[must_use]
    pub fn volume(&self) -> &VolumeId {
        &self.volume
    }

    /// The snapshot that the proof rests on, to be read again by id as well.
    #[must_use]
    pub fn snapshot(&self) -> Option<&SnapshotId> {
        match &self.because {
            SpentBecause::Saved(snapshot, _) => Some(snapshot),
            SpentBecause::Unused(_, snapshot) => snapshot.as_ref(),
            SpentBecause::Unformatted => None,
        }
    }

    /// Whether it still holds: young enough at `now`, and true of volume and snapshot as just read
    /// by id.
    #[must_use]
    pub fn holds(&self, now: BootTime, volume: &Volume, snapshot: Option<&Snapshot>) -> bool {
        let free = volume.attachment.is_none()
            && matches!(volume.state, VolumeState::Available | VolumeState::Error);
        let Ok(VolumeTags::Drive {
            base,
            generation,
            blank,
            formatted,
            ..
        }) = tags::read_volume(&volume.tags)
        else {
            return false;
        };
        let spent = match &self.because {
            SpentBecause::Unused(started, origin) => {
                let is_there = |id: &SnapshotId| {
                    snapshot.is_some_and(|snapshot| {
                        let own = tags::read_snapshot(&snapshot.tags);
                        snapshot.id == *id
                            && snapshot.state == SnapshotState::Completed
                            && own.is_ok_and(|own| own.generation >= *started)
                    })
                };
                base == *started && generation == base && origin.as_ref().is_none_or(is_there)
            }
            SpentBecause::Saved(id, at) => {
                generation == *at
                    && snapshot.is_some_and(|snapshot| {
                        let own = tags::read_snapshot(&snapshot.tags);
                        snapshot.id == *id
                            && snapshot.state == SnapshotState::Completed
                            && snapshot.volume.as_ref() == Some(&self.volume)
                            && own.is_ok_and(|own| {
                                own.generation == *at && own.kind != SnapshotKind::Checkpoint
                            })
                    })
            }
            SpentBecause::Unformatted => {
                blank
                    && !formatted
                    && base == Generation::EMPTY
                    && generation == Generation::EMPTY.next()
            }
        };
        volume.id == self.volume && now.since(self.at) <= LIFE && free && spent
    }
}

impl Failed {
    /// Proves that `snapshot` may be deleted, if it may.
    #[must_use]
    pub fn prove(seen: &Observed, snapshot: &SeenSnapshot) -> Option<Self> {
        let volume = seen.volume(snapshot.volume.as_ref()?)?;
        let useless = snapshot.state == SnapshotState::Error && volume.exists();
        useless.then(|| Self {
            snapshot: snapshot.id.clone(),
            volume: volume.id.clone(),
            at: seen.proven,
        })
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &SnapshotId {
        &self.snapshot
    }

    /// The volume it was taken of, to be read again by id as well.
    #[must_use]
    pub fn volume(&self) -> &VolumeId {
        &self.volume
    }

    /// Whether it still holds.
    #[must_use]
    pub fn holds(&self, now: BootTime, snapshot: &Snapshot, volume: &Volume) -> bool {
        let alive = !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
        snapshot.id == self.snapshot
            && snapshot.state == SnapshotState::Error
            && volume.id == self.volume
            && now.since(self.at) <= LIFE
            && alive
    }
}

/// Whether `snapshot`, once completed, holds all that `volume` holds now.
#[must_use]
pub fn saves(snapshot: &SeenSnapshot, volume: &SeenVolume) -> bool {
    snapshot.volume.as_ref() == Some(&volume.id)
        && snapshot.generation == volume.generation
        && snapshot.is_final()
}

/// The completed snapshot for whose sake a never-attached volume is not missed: what it was made
/// from, or one at least as new. None if somebody has deleted that snapshot: then the volume is the
/// last that has its state.
fn origin<'a>(seen: &'a Observed, volume: &SeenVolume) -> Option<&'a SeenSnapshot> {
    seen.snapshots
        .iter()
        .filter(|snapshot| snapshot.state == SnapshotState::Completed)
        .find(|snapshot| {
            let is_newer = snapshot.is_final() && snapshot.generation >= volume.base;
            volume.snapshot.as_ref() == Some(&snapshot.id) || is_newer
        })
}
