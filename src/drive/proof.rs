//! Proofs that a resource may be destroyed, in two stages.
//!
//! 1. *Grounds* are what one sweep observed: [`TerminationGrounds`], [`DeletionGrounds`],
//!    [`PruningGrounds`], [`FailedSnapshot`]. `prove` makes them, and `plan` puts them in its
//!    steps. No call takes them.
//! 2. [`MayTerminate`], [`MayDelete`] and [`MayPrune`] are grounds that also held when everything
//!    they rest on was re-read by id, right before the call. `confirm` makes them, each good for
//!    one call. [`crate::ec2::Ec2`] terminates and deletes only with one of them.
//!
//! What may have changed since the sweep is re-read all at once, no longer than [`REREAD_LIFE`]
//! before the call, by the boot-time clock: a laptop that slept in between re-reads. The age of the
//! sweep itself makes no difference, so slow calls (a sweep is several) only take longer.
//!
//! What is final is not re-read: a host that began to close never mounts again, a lease that is
//! over stays over until its tag changes, a completed snapshot keeps its content. One thing is not
//! final, and EC2 does not know it: that an answering host has nothing mounted and no other client.
//! A client that claims it then mounts no sooner than [`super::Timing::settle`] later, so the
//! host's answer counts for [`VIEW_LIFE`]; after that the host is asked again.

mod may;
mod pruning;

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{Instance, Snapshot, SnapshotState, Volume, VolumeState};
use crate::host::Mounted;
use crate::ids::{Generation, InstanceId, SnapshotId, VolumeId};

use super::hosts::{Client, Contact, HostView};
use super::observed::{
    DEVICE, Observed, SeenInstance, SeenSnapshot, SeenThrowaway, SeenVolume, Verdict,
};
use super::tags::{self, SnapshotKind, VolumeTags};

pub use may::{MayDelete, MayPrune, MayTerminate};
pub use pruning::PruningGrounds;

/// How long a re-read counts, from when it was sent. It takes 1.5 s on a new connection with a
/// round trip of 300 ms, and as much again each time that EC2 throttles it.
pub const REREAD_LIFE: Duration = Duration::from_secs(10);

/// How long a host's answer in a sweep counts, until the re-read is sent. With [`REREAD_LIFE`] it
/// is no longer than [`super::Timing::settle`] on AWS: a client that claimed the host after its
/// answer has not mounted there yet.
pub const VIEW_LIFE: Duration = Duration::from_secs(5);

/// How long EC2's own check of an instance has failed at least, before its user may say that it hangs.
pub const HUNG: Duration = Duration::from_mins(5);

/// When grounds were re-read, and when the call follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reread {
    /// Right before the first of the reads was sent.
    pub asked: BootTime,
    /// Right before the call.
    pub now: BootTime,
    /// For how long EC2's own check of the instance had failed then; none if it had not, or was not asked.
    pub failing: Option<Duration>,
}

impl Reread {
    fn is_young(self) -> bool {
        self.now.since(self.asked) <= REREAD_LIFE
    }
}

/// Why an instance may be terminated (P2), as a sweep observed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TerminationGrounds {
    instance: InstanceId,
    because: TerminationReason,
    /// When its host answered that it has nothing mounted and no other client, if it answered.
    host_view: Option<BootTime>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TerminationReason {
    /// No volume of the drive is attached there, so none is mounted.
    NotAttached,
    /// The host has closed; it never mounts again.
    Closed,
    /// The instance was launched for this volume, which is thrown away, and has nothing else of the
    /// drive.
    Throwaway(VolumeId),
    /// The host's lease ended at this time, longer ago than a host takes to switch itself off, and
    /// the host does not answer.
    LeaseOver(Timestamp),
    /// The user says that the host hangs. It does not answer, and EC2's own check of it has failed for
    /// [`HUNG`], by the re-read.
    Hung,
}

/// Why a volume may be deleted (P1), as a sweep observed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeletionGrounds {
    volume: VolumeId,
    because: DeletionReason,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum DeletionReason {
    /// The volume was never attached, and its source or something newer still exists.
    Unused(Generation, Option<SnapshotId>),
    /// A completed snapshot of it, no checkpoint, has its generation, and was found to hold the
    /// drive or could not be read.
    Saved(SnapshotId, Generation),
    /// The volume was created empty and never used: it is not marked formatted.
    Unformatted,
    /// The volume was made to be thrown away, and the snapshot that it was made from is still
    /// there.
    Discarded(SnapshotId),
}

/// Why a failed snapshot may be deleted, as a sweep observed it: its volume is there to take
/// another of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FailedSnapshot {
    snapshot: SnapshotId,
    volume: VolumeId,
}

impl TerminationGrounds {
    /// The grounds on which `instance` may be terminated, if there are any.
    #[must_use]
    pub fn prove(seen: &Observed, instance: &SeenInstance) -> Option<Self> {
        let held: Vec<&SeenVolume> = seen.held_by(&instance.id).collect();
        let thrown: Vec<&SeenVolume> = seen
            .throwaways_on(&instance.id)
            .map(|it| &it.volume)
            .collect();
        let kept = held.iter().chain(&thrown).all(|volume| {
            volume
                .attachment
                .as_ref()
                .is_some_and(|attachment| !attachment.delete_on_termination)
        });
        let because = if held.is_empty() && thrown.is_empty() {
            TerminationReason::NotAttached
        } else if seen.is_closed(instance) && kept {
            TerminationReason::Closed
        } else if let ([], [only]) = (&held[..], &thrown[..])
            && instance.throwaway.is_some()
            && instance.view().is_some_and(|view| {
                !matches!(view.client, Client::Other { .. }) && has_at_most(view, &only.id)
            })
            && kept
        {
            TerminationReason::Throwaway(only.id.clone())
        } else if let Some(lease) = instance.lease
            && instance.view().is_none()
            && seen.began >= lease.off_by
            && kept
        {
            TerminationReason::LeaseOver(lease.until)
        } else if seen.me.hung.as_ref() == Some(&instance.id)
            && instance.contact == Contact::Unreachable
            && kept
        {
            TerminationReason::Hung
        } else {
            return None;
        };
        // A close is final.
        let may_change = matches!(
            because,
            TerminationReason::NotAttached | TerminationReason::Throwaway(_)
        );
        let has_view = may_change && instance.view().is_some();
        Some(Self {
            instance: instance.id.clone(),
            because,
            host_view: has_view.then_some(seen.began),
        })
    }

    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Whether the host has to be asked again together with a re-read that is sent at `asked`.
    #[must_use]
    pub fn must_ask_host(&self, asked: BootTime) -> bool {
        self.host_view.is_some_and(|at| asked.since(at) > VIEW_LIFE)
    }

    /// Whether EC2's own check of the instance has to be asked together with a re-read.
    #[must_use]
    pub fn must_ask_check(&self) -> bool {
        self.because == TerminationReason::Hung
    }

    /// The permit, if the grounds hold for the re-read `instance`, and for what its host answered
    /// then, if it had to be asked.
    #[must_use]
    pub fn confirm(
        &self,
        reread: Reread,
        instance: &Instance,
        host: Option<&Contact>,
    ) -> Option<MayTerminate> {
        let is_free = match host {
            Some(Contact::Reached(view)) => {
                let is_unmounted = match &self.because {
                    TerminationReason::Throwaway(volume) => has_at_most(view, volume),
                    _ => view.mounted == Mounted::Nothing,
                };
                !matches!(view.client, Client::Other { .. }) && is_unmounted
            }
            Some(Contact::NotAsked | Contact::Unreachable | Contact::KeyRefused) => false,
            None => !self.must_ask_host(reread.asked),
        };
        let mut drives = instance
            .mappings
            .iter()
            .filter(|mapping| mapping.device == DEVICE);
        let applies = match &self.because {
            TerminationReason::NotAttached => drives.next().is_none(),
            TerminationReason::Closed => drives.all(|mapping| !mapping.delete_on_termination),
            TerminationReason::Throwaway(volume) => {
                tags::thrown_away_by(&instance.tags).is_some()
                    && drives.all(|it| it.volume == *volume && !it.delete_on_termination)
            }
            TerminationReason::LeaseOver(until) => {
                tags::until(&instance.tags) == Some(*until)
                    && drives.all(|mapping| !mapping.delete_on_termination)
            }
            TerminationReason::Hung => {
                reread.failing.is_some_and(|failing| failing >= HUNG)
                    && drives.all(|mapping| !mapping.delete_on_termination)
            }
        };
        let holds = instance.id == self.instance && reread.is_young() && is_free && applies;
        holds.then(|| MayTerminate::new(&self.instance))
    }
}

impl DeletionGrounds {
    /// The grounds on which `volume` may be deleted, if there are any.
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
            // No stale list may show the volume gone and nothing in its place.
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

    /// The grounds on which a volume that is thrown away may be deleted, if there are any: the drive
    /// still has the snapshot that it was made from. Its tag is checked on the re-read.
    #[must_use]
    pub fn prove_discarded(seen: &Observed, thrown: &SeenThrowaway) -> Option<Self> {
        let volume = &thrown.volume;
        let origin = seen
            .snapshots
            .iter()
            .filter(|snapshot| snapshot.state == SnapshotState::Completed)
            .find(|snapshot| volume.snapshot.as_ref() == Some(&snapshot.id))?;
        volume.is_free().then(|| Self {
            volume: volume.id.clone(),
            because: DeletionReason::Discarded(origin.id.clone()),
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
            DeletionReason::Saved(snapshot, _) | DeletionReason::Discarded(snapshot) => {
                Some(snapshot)
            }
            DeletionReason::Unused(_, snapshot) => snapshot.as_ref(),
            DeletionReason::Unformatted => None,
        }
    }

    /// The permit, if the grounds hold for the re-read volume and snapshot.
    #[must_use]
    pub fn confirm(
        &self,
        reread: Reread,
        volume: &Volume,
        snapshot: Option<&Snapshot>,
    ) -> Option<MayDelete> {
        let free = volume.attachment.is_none()
            && matches!(volume.state, VolumeState::Available | VolumeState::Error);
        let applies = match tags::read_volume(&volume.tags).ok()? {
            VolumeTags::Root => false,
            VolumeTags::Throwaway { base, .. } => {
                let origin = self.origin_of_discarded();
                origin.is_some()
                    && volume.snapshot.as_ref() == origin
                    && snapshot.is_some_and(|snapshot| {
                        let own = tags::read_snapshot(&snapshot.tags);
                        Some(&snapshot.id) == origin
                            && snapshot.state == SnapshotState::Completed
                            && own.is_ok_and(|own| own.generation == base)
                    })
            }
            drive @ VolumeTags::Drive { .. } => self.allows(&drive, snapshot),
        };
        let holds = volume.id == self.volume && reread.is_young() && free && applies;
        holds.then(|| MayDelete::new(&self.volume))
    }

    /// The snapshot whose content a throwaway volume began with, if these are grounds to delete one.
    fn origin_of_discarded(&self) -> Option<&SnapshotId> {
        match &self.because {
            DeletionReason::Discarded(origin) => Some(origin),
            DeletionReason::Unused(..)
            | DeletionReason::Saved(..)
            | DeletionReason::Unformatted => None,
        }
    }

    /// Whether the grounds hold for a volume of the drive with these tags, as it was re-read, and for
    /// the snapshot.
    fn allows(&self, tags: &VolumeTags, snapshot: Option<&Snapshot>) -> bool {
        let VolumeTags::Drive {
            base,
            generation,
            blank,
            formatted,
            ..
        } = *tags
        else {
            return false;
        };
        match &self.because {
            DeletionReason::Discarded(_) => false,
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
        }
    }
}

impl FailedSnapshot {
    /// The grounds on which `snapshot` may be deleted, if there are any.
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

    /// The volume it was taken of, to be re-read as well.
    #[must_use]
    pub fn volume(&self) -> &VolumeId {
        &self.volume
    }

    /// The permit, if the grounds hold for the re-read snapshot and volume.
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
        holds.then(|| MayPrune::new(&self.snapshot))
    }
}

/// Whether the host has nothing mounted but this volume.
fn has_at_most(view: &HostView, volume: &VolumeId) -> bool {
    match &view.mounted {
        Mounted::Nothing => true,
        Mounted::Volume(mounted) | Mounted::Frozen(mounted) => mounted == volume,
    }
}

/// Whether `snapshot`, once completed, holds all that `volume` holds now.
#[must_use]
pub fn saves(snapshot: &SeenSnapshot, volume: &SeenVolume) -> bool {
    snapshot.volume.as_ref() == Some(&volume.id)
        && snapshot.generation == volume.generation
        && snapshot.is_final()
}

/// The completed snapshot that makes a never-attached volume superfluous: the one it was made from,
/// or a final one at least as new. If there is none, the volume is the last that has its state.
fn origin<'a>(seen: &'a Observed, volume: &SeenVolume) -> Option<&'a SeenSnapshot> {
    seen.snapshots
        .iter()
        .filter(|snapshot| snapshot.state == SnapshotState::Completed)
        .find(|snapshot| {
            let is_newer = snapshot.is_final() && snapshot.generation >= volume.base;
            volume.snapshot.as_ref() == Some(&snapshot.id) || is_newer
        })
}
