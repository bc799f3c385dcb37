//! [`Observed`]: one ordered sweep, parsed, with the overlay laid over it.
//!
//! A plain value: small, comparable, hashable, without SDK types, so that tables and the model
//! checker can test `plan`. Lists may be stale, so the [`super::overlay`] is laid over them first,
//! and only forwards in time: generations only rise, and an instance that was terminated never runs
//! again.
//!
//! Moments are on this computer's boot-time clock: `since` is when *this process* first saw a thing
//! in its present state. No decision compares AWS's clock with this computer's.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{
    AttachmentState, GibiBytes, InstanceState, SnapshotState, StatusChecks, VolumeState, Zone,
};
use crate::host::{Closed, Mounted};
use crate::ids::{Generation, InstanceId, SessionId, SnapshotId, Uuid, VolumeId};

use super::hosts::{Client, Contact, HostView};
use super::provenance::Provenance;
use super::tags::{Leaving, SnapshotKind};
use super::timing::Timing;

/// The device name under which the drive's volume is attached.
pub const DEVICE: &str = "/dev/sdf";

/// All facts about a drive that `plan` decides by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The process's own state: its session, and what it did so far.
    pub me: Me,
    /// When this process began its first sweep.
    pub first: BootTime,
    /// When this sweep began. It shows everything older than this by [`super::Timing::settle`].
    pub began: BootTime,
    /// The drive's instances, also ended ones that are still listed.
    pub instances: Vec<SeenInstance>,
    /// The drive's volumes, without root disks.
    pub volumes: Vec<SeenVolume>,
    /// The volumes that sessions throw away. None of them is a state of the drive.
    pub throwaways: Vec<SeenThrowaway>,
    /// The drive's snapshots.
    pub snapshots: Vec<SeenSnapshot>,
    /// Things with the drive's tag that cannot be read: id and problem.
    pub unreadable: Vec<(String, String)>,
}

/// The process's own state: its session, and what it did so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Me {
    /// The process's session.
    pub session: SessionId,
    /// When this process's last create or claim call was answered.
    pub announced: Option<BootTime>,
    /// When the last create call without an answer was sent: it may have been carried out.
    pub unsure: Option<BootTime>,
    /// How many instances were launched.
    pub launches: u32,
    /// The volume whose generation this process raised, and to what; none again once an
    /// `AttachVolume` was sent for it: every attachment needs its own raise.
    pub raised: Option<(VolumeId, Generation)>,
    /// The volume that this process attached to a host whose client lock it has had since, and its
    /// generation; none again once the mount is sent, or the host is claimed anew.
    pub attached: Option<(VolumeId, Generation)>,
    /// The volume that this process closed on its host, and its generation then.
    pub closed: Option<(VolumeId, Generation)>,
    /// Hosts that answered a close, and how.
    pub closes: BTreeMap<InstanceId, Closed>,
    /// The volume that a host unmounted, or froze, when this process closed it there, and its
    /// generation then: all that was written is on the disk.
    pub unmounted: Option<(VolumeId, Generation)>,
    /// The file system that a host reported on the volume it mounted.
    pub reported: Option<(VolumeId, Uuid)>,
    /// The verdicts on snapshots that are to stand for their volumes.
    pub verdicts: BTreeMap<SnapshotId, Verdict>,
    /// The snapshots that this process takes from the drive's name: all that there were when it began.
    /// Any other one is of another drive, which somebody gave that name meanwhile.
    pub leaving: BTreeSet<SnapshotId>,
    /// Superseded snapshots that could not be deleted: not tried again in this run.
    pub not_pruned: BTreeSet<SnapshotId>,
    /// The volume whose mount was refused, and why.
    pub refused: Option<(VolumeId, Refusal)>,
    /// Hosts on which attaching failed: never used again.
    pub rejected: Vec<InstanceId>,
    /// The process's attempts to snapshot, oldest first.
    pub attempts: Vec<Attempt>,
    /// The instance of which this process's user says that it hangs.
    pub hung: Option<InstanceId>,
    /// Volumes that this process made and that failed, or were gone, before they were attached.
    pub failed: BTreeSet<VolumeId>,
}

/// Why a mount was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The volume holds neither blank space nor a file system; no format of it ever ended on that
    /// host.
    Garbled,
    /// A file system that cannot be mounted, or anything else that may be data.
    Damaged(String),
}

/// The verdict on a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The snapshot holds the drive, as it was left.
    Sound,
    /// The snapshot could not be read, for this reason; the volume may be deleted all the same.
    Unverifiable(String),
    /// No answer yet.
    Open {
        /// When it was first read.
        first: BootTime,
        /// When it was last read.
        last: BootTime,
    },
    /// The snapshot does not hold the drive as it was left; the text says what is wrong.
    Unsound(String),
}

impl Verdict {
    /// Whether the snapshot may stand for its volume.
    #[must_use]
    pub fn allows(&self) -> bool {
        matches!(self, Self::Sound | Self::Unverifiable(_))
    }
}

/// A `CreateSnapshot` call of this process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The volume.
    pub volume: VolumeId,
    /// The snapshot's `xdrive:op`.
    pub op: String,
    /// The snapshot's kind.
    pub kind: SnapshotKind,
    /// When the call was sent.
    pub at: BootTime,
}

/// An instance of the drive, as a sweep observed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenInstance {
    /// The instance's id.
    pub id: InstanceId,
    /// The instance's state.
    pub state: InstanceState,
    /// The instance's zone.
    pub zone: Zone,
    /// When `RunInstances` accepted it, by AWS's clock: compared among instances only.
    pub launched: Timestamp,
    /// The session that launched or last claimed it.
    pub session: SessionId,
    /// The ARN of that session's caller.
    pub owner: String,
    /// Whether the list has it. If not, this process launched it.
    pub listed: bool,
    /// The answer of the instance's host.
    pub contact: Contact,
    /// Since when state and contact are as they are.
    pub since: BootTime,
    /// When this process launched it; where another did, as `since`.
    pub made: BootTime,
    /// EC2's status checks of it, if it runs and has not answered for a while.
    pub checks: Option<SeenChecks>,
    /// The lease on the host, as the instance's tag has it.
    pub lease: Option<SeenLease>,
    /// The session for whose throwaway volume it was launched; none if it is for the drive.
    pub throwaway: Option<SessionId>,
    /// Until when it is left to EC2, which takes it in its first hour and then bills nothing for it; none where
    /// it is not.
    pub spared: Option<BootTime>,
}

/// EC2's status checks of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenChecks {
    /// The checks' results.
    pub checks: StatusChecks,
    /// Since when this process sees these results.
    pub since: BootTime,
}

/// An instance's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenLease {
    /// When it ends, by the writer's clock; for a person to read.
    pub until: Timestamp,
    /// When the host has certainly switched itself off, if the lease is not renewed: its end and
    /// [`super::Timing::lease_margin`], on this computer's boot-time clock.
    pub off_by: BootTime,
}

/// A volume of the drive, as a sweep observed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct SeenVolume {
    /// The volume's id.
    pub id: VolumeId,
    /// The volume's state.
    pub state: VolumeState,
    /// The volume's zone.
    pub zone: Zone,
    /// The volume's size.
    pub size: GibiBytes,
    /// The volume's throughput in MiB a second, where one was asked for.
    pub throughput: Option<u32>,
    /// When it was made, by AWS's clock: compared among volumes only.
    pub created: Timestamp,
    /// The snapshot it was made from; none if it was made empty.
    pub snapshot: Option<SnapshotId>,
    /// The volume's attachment, if there is one.
    pub attachment: Option<SeenAttachment>,
    /// The generation it started with.
    pub base: Generation,
    /// The generation it is at.
    pub generation: Generation,
    /// Created empty.
    pub blank: bool,
    /// Known to have been formatted.
    pub formatted: bool,
    /// The file system's UUID, if that is recorded.
    pub uuid: Option<Uuid>,
    /// The session that made or last claimed it.
    pub session: SessionId,
    /// Whether that session's caller is recorded.
    pub has_owner: bool,
    /// Whether the list has it. If not, this process made it.
    pub listed: bool,
    /// Since when state, attachment and generation are as they are.
    pub since: BootTime,
}

/// A volume that a session throws away: of its own type, so that no rule for the drive's volumes
/// takes it for one of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenThrowaway {
    /// The volume. Its generation is that of its snapshot, and its session the one that throws it
    /// away.
    pub volume: SeenVolume,
}

/// A volume's attachment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenAttachment {
    /// The instance.
    pub instance: InstanceId,
    /// The attachment's state.
    pub state: AttachmentState,
    /// The device name.
    pub device: String,
    /// Whether terminating the instance would delete the volume.
    pub delete_on_termination: bool,
}

/// A snapshot of the drive, as a sweep observed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenSnapshot {
    /// The snapshot's id.
    pub id: SnapshotId,
    /// The snapshot's state.
    pub state: SnapshotState,
    /// The volume it was taken of.
    pub volume: Option<VolumeId>,
    /// The size of that volume.
    pub size: GibiBytes,
    /// The generation of that volume.
    pub generation: Generation,
    /// How it came to be.
    pub kind: SnapshotKind,
    /// The attempt that made it.
    pub op: String,
    /// The file system's UUID, if that was recorded on the volume.
    pub uuid: Option<Uuid>,
    /// Whether its owner is recorded.
    pub has_owner: bool,
    /// A checkpoint's number within its generation, from 1; else 0.
    pub number: u32,
    /// Why it leaves the drive, if its user deletes or renames that.
    pub leaving: Option<Leaving>,
    /// Whether its drive began with it, as a fork of another one.
    pub is_forked: bool,
    /// Since when its state is as it is.
    pub since: BootTime,
    /// Whether it has been known for so long that every list read now has it. Before that, another
    /// process may see its volume gone and not see the snapshot.
    pub is_everywhere: bool,
}

impl Observed {
    /// The instance of that id.
    #[must_use]
    pub fn instance(&self, id: &InstanceId) -> Option<&SeenInstance> {
        self.instances.iter().find(|instance| instance.id == *id)
    }

    /// The volume of that id.
    #[must_use]
    pub fn volume(&self, id: &VolumeId) -> Option<&SeenVolume> {
        self.volumes.iter().find(|volume| volume.id == *id)
    }

    /// Whether the lists have this volume, the drive's or a throwaway one.
    #[must_use]
    pub fn lists_volume(&self, id: &VolumeId) -> bool {
        self.all_volumes()
            .any(|volume| volume.id == *id && volume.listed)
    }

    /// The drive's volumes, and those that sessions throw away.
    pub fn all_volumes(&self) -> impl Iterator<Item = &SeenVolume> {
        let throwaways = self.throwaways.iter().map(|it| &it.volume);
        self.volumes.iter().chain(throwaways)
    }

    /// Whether any volume of the drive, or one that is thrown away, exists.
    #[must_use]
    pub fn has_volume(&self) -> bool {
        self.all_volumes().any(SeenVolume::exists)
    }

    /// The snapshots of a volume.
    pub fn snapshots_of<'a>(
        &'a self,
        volume: &'a VolumeId,
    ) -> impl Iterator<Item = &'a SeenSnapshot> {
        self.snapshots
            .iter()
            .filter(move |snapshot| snapshot.volume.as_ref() == Some(volume))
    }

    /// The drive's volumes that are attached to an instance, attaching or detaching.
    pub fn held_by<'a>(&'a self, instance: &'a InstanceId) -> impl Iterator<Item = &'a SeenVolume> {
        self.volumes
            .iter()
            .filter(move |volume| volume.holder() == Some(instance))
    }

    /// Likewise the throwaway ones.
    pub fn throwaways_on<'a>(
        &'a self,
        instance: &'a InstanceId,
    ) -> impl Iterator<Item = &'a SeenThrowaway> {
        self.throwaways
            .iter()
            .filter(move |it| it.volume.holder() == Some(instance))
    }

    /// Whether this instance is this session's.
    #[must_use]
    pub fn is_mine(&self, instance: &SeenInstance) -> bool {
        // The session with the host's client lock has it, whatever a stale tag says.
        match instance.client() {
            Some(Client::Me) => true,
            Some(Client::Other { .. }) => false,
            Some(Client::Nobody) | None => instance.session == self.me.session,
        }
    }

    /// Whether the host reports that it unmounted this volume, or froze it: all that was written is
    /// on the disk.
    #[must_use]
    pub fn is_whole(&self, instance: &SeenInstance, volume: &SeenVolume) -> bool {
        instance.view().is_some_and(|view| {
            let frozen = matches!(&view.mounted, Mounted::Frozen(frozen) if *frozen == volume.id);
            frozen || view.unmounted.as_ref() == Some(&volume.id)
        })
    }

    /// Whether the host is closed: it never writes to the drive again.
    #[must_use]
    pub fn is_closed(&self, instance: &SeenInstance) -> bool {
        self.me.closes.contains_key(&instance.id)
            || instance
                .view()
                .is_some_and(|view| view.closing && !matches!(view.mounted, Mounted::Volume(_)))
    }
}

impl SeenInstance {
    /// Whether it is running or pending.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// Whether it still boots, as EC2 reports, and has not done so for longer than
    /// [`super::Timing::boot`].
    #[must_use]
    pub fn is_booting(&self, now: BootTime, timing: &Timing) -> bool {
        let is_booting = match self.state {
            InstanceState::Pending => true,
            InstanceState::Running => self
                .checks
                .is_some_and(|seen| seen.checks.are_initializing()),
            _ => false,
        };
        is_booting && now.since(self.made) < timing.boot
    }

    /// The host's state, if the host answered.
    #[must_use]
    pub fn view(&self) -> Option<&HostView> {
        match &self.contact {
            Contact::Reached(view) => Some(view),
            Contact::NotAsked | Contact::Unreachable | Contact::KeyRefused => None,
        }
    }

    /// The client that has the host's lock, if the host answered.
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        self.view().map(|view| &view.client)
    }
}

impl SeenVolume {
    /// The file system, owner and generation that its tags record.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        Provenance {
            generation: self.generation,
            uuid: self.uuid,
            has_owner: self.has_owner,
        }
    }

    /// Whether it is neither deleted nor being deleted.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(self.state, VolumeState::Deleting | VolumeState::Deleted)
    }

    /// The instance it is attached to, attaching or detaching included.
    #[must_use]
    pub fn holder(&self) -> Option<&InstanceId> {
        self.attachment
            .as_ref()
            .filter(|attachment| attachment.state != AttachmentState::Detached)
            .map(|attachment| &attachment.instance)
    }

    /// Whether it is certainly attached to nothing.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.holder().is_none() && matches!(self.state, VolumeState::Available | VolumeState::Error)
    }

    /// Whether it was never attached: its generation was never raised.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.generation == self.base
    }

    /// Whether it can hold no data: created empty, attached once at most, and not marked formatted,
    /// which comes before the first use.
    #[must_use]
    pub fn is_unformatted(&self) -> bool {
        self.blank
            && !self.formatted
            && self.base == Generation::EMPTY
            && self.generation == Generation::EMPTY.next()
    }
}

impl SeenSnapshot {
    /// The file system, owner and generation that its tags record.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        Provenance {
            generation: self.generation,
            uuid: self.uuid,
            has_owner: self.has_owner,
        }
    }

    /// Whether it holds all of its volume's generation, once completed.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.kind != SnapshotKind::Checkpoint
    }
}
