//! Proofs: why a thing may be destroyed, made only by observing.
//!
//! A proof is made from one look. Right before the call everything that it rests on and that may have
//! changed since is read again by id, all at once, and the proof has to hold for that as well, within
//! [`LIFE`] of that read, by the boot-time clock: a laptop that slept in between reads again. How
//! long ago the look was makes no difference, so that slow calls (a look is several) only take
//! longer. What is not read again is final: a host that began to close never mounts again, a lease
//! that is over is so until its record says otherwise, what is in a completed snapshot stays in it.
//! One thing is neither: that an answering host holds nothing and is nobody else's. Whoever takes
//! it mounts no sooner than [`super::Timing::settle`] after that, so that the host's word counts
//! for [`WORD`]; after that it is asked again.
//!
//! What comes of a proof that is confirmed is a [`MayTerminate`], [`MayDelete`] or [`MayPrune`],
//! good for one call. Nothing else in xdrive can delete a volume or a snapshot or terminate an
//! instance: those calls take one of these, which are made here alone.

mod may;
mod pruning;

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{
    Instance, InstanceId, Snapshot, SnapshotId, SnapshotState, Volume, VolumeId, VolumeState,
};

use super::hosts::{Client, Contact, Mounted};
use super::name::Generation;
use super::observed::{DEVICE, Observed, SeenInstance, SeenSnapshot, SeenVolume, Verdict};
use super::tags::{self, SnapshotKind, VolumeTags};

pub use may::{MayDelete, MayPrune, MayTerminate};
pub use pruning::PruningGrounds;

/// How long what was read by id may be acted upon, from when that was asked. A read takes as long
/// as a line and EC2 make it: on a new connection at 300 ms a round trip 1.5 s, and as much again
/// for each time that EC2 throttles it.
pub const LIFE: Duration = Duration::from_secs(10);

/// How long a host's word in a look counts, until what it is about is read again. With [`LIFE`] it is
/// no longer than [`super::Timing::settle`] on AWS: nobody who took the host after it has mounted
/// there.
pub const WORD: Duration = Duration::from_secs(5);

/// When what a proof rests on was read again, and when it is acted upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reread {
    /// Right before the first of the reads.
    pub asked: BootTime,
    /// Right before the call.
    pub now: BootTime,
}

impl Reread {
    fn is_young(self) -> bool {
        self.now.since(self.asked) <= LIFE
    }
}

/// An instance may be terminated (P2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TerminationGrounds {
    instance: InstanceId,
    because: TerminationReason,
    /// When its host said that nothing is mounted there and that it is nobody else's, if it answered.
    word: Option<BootTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TerminationReason {
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
pub struct DeletionGrounds {
    volume: VolumeId,
    because: DeletionReason,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum DeletionReason {
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
}

impl TerminationGrounds {
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
            TerminationReason::NotAttached
        } else if seen.is_closed(instance) && kept {
            TerminationReason::Closed
        } else if let Some(lease) = instance.lease
            && instance.view().is_none()
            && seen.began >= lease.off_by
            && kept
        {
            TerminationReason::LeaseOver(lease.until)
        } else {
            return None;
        };
        // What else it says, it says for good.
        let is_said = because == TerminationReason::NotAttached && instance.view().is_some();
        Some(Self {
            instance: instance.id.clone(),
            because,
            word: is_said.then_some(seen.began),
        })
    }

    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Whether the host has to be asked again beside a read that is asked for at that moment.
    #[must_use]
    pub fn asks_host(&self, asked: BootTime) -> bool {
        self.word.is_some_and(|word| asked.since(word) > WORD)
    }

    /// Confirms it, if it still holds: read a moment ago, and true of the instance as it was read
    /// by id, and of what its host said then, if it had to be asked.
    #[must_use]
    pub fn confirm(
        &self,
        reread: Reread,
        instance: &Instance,
        host: Option<&Contact>,
    ) -> Option<MayTerminate> {
        let is_nobodys = match host {
            Some(Contact::Reached(view)) => {
                !matches!(view.client, Client::Other { .. }) && view.mounted == Mounted::Nothing
            }
            Some(Contact::NotAsked | Contact::Unreachable | Contact::KeyRefused) => false,
            None => !self.asks_host(reread.asked),
        };
        let mut drives = instance
            .mappings
            .iter()
            .filter(|mapping| mapping.device == DEVICE);
        let quiet = match self.because {
            TerminationReason::NotAttached => drives.next().is_none(),
            TerminationReason::Closed => drives.all(|mapping| !mapping.delete_on_termination),
            TerminationReason::LeaseOver(until) => {
                tags::until(&instance.tags) == Some(until)
                    && drives.all(|mapping| !mapping.delete_on_termination)
            }
        };
        let holds = instance.id == self.instance && reread.is_young() && is_nobodys && quiet;
        holds.then(|| MayTerminate::of(&self.instance))
    }
}

impl DeletionGrounds {
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
            DeletionReason::Unused(volume.base, origin)
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
            DeletionReason::Saved(snapshot.id.clone(), volume.generation)
        } else if volume.is_unformatted() && seen.snapshots_of(&volume.id).next().is_none() {
            DeletionReason::Unformatted
        } else {
            return None;
        };
        Some(Self {
            volume: volume.id.clone(),
            because,
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
            DeletionReason::Saved(snapshot, _) => Some(snapshot),
            DeletionReason::Unused(_, snapshot) => snapshot.as_ref(),
            DeletionReason::Unformatted => None,
        }
    }

    /// Confirms it, if it still holds: read a moment ago, and true of volume and snapshot as they
    /// were read by id.
    #[must_use]
    pub fn confirm(
        &self,
        reread: Reread,
        volume: &Volume,
        snapshot: Option<&Snapshot>,
    ) -> Option<MayDelete> {
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
            return None;
        };
        let spent = match &self.because {
            DeletionReason::Unused(started, origin) => {
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
            DeletionReason::Saved(id, at) => {
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
            DeletionReason::Unformatted => {
                blank
                    && !formatted
                    && base == Generation::EMPTY
                    && generation == Generation::EMPTY.next()
            }
        };
        let holds = volume.id == self.volume && reread.is_young() && free && spent;
        holds.then(|| MayDelete::of(&self.volume))
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

    /// Confirms it, if it still holds: read a moment ago, and true of snapshot and volume as they
    /// were read by id.
    #[must_use]
    pub fn confirm(
        &self,
        reread: Reread,
        snapshot: &Snapshot,
        volume: &Volume,
    ) -> Option<MayPrune> {
        let alive = !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
        let holds = snapshot.id == self.snapshot
            && snapshot.state == SnapshotState::Error
            && volume.id == self.volume
            && reread.is_young()
            && alive;
        holds.then(|| MayPrune::of(&self.snapshot))
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
