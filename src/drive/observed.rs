//! What one ordered sweep saw, read and made sharp by what this process knows for certain.
//!
//! A plain value: small, comparable, hashable, made of no SDK type, so that `plan` can be tabled
//! and model-checked. Lists may be stale; what this process made or was answered is laid over them
//! before (`memory`), and always in the direction that time goes: generations only rise, what was
//! told to terminate is never running again.
//!
//! Moments are on the boot-time clock of this process: `since` is when *this process* first saw a
//! thing in its present state. No decision depends on AWS's clock and this computer's agreeing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{
    AttachmentState, GibiBytes, InstanceId, InstanceState, SnapshotId, SnapshotState, StatusChecks,
    VolumeId, VolumeState, Zone,
};

use super::hosts::{Client, Closed, Contact, HostView, Mounted};
use super::name::{Generation, SessionId};
use super::tags::SnapshotKind;
use super::timing::Timing;
use uuid::Uuid;

/// The device name under which the drive's volume is attached.
pub const DEVICE: &str = "/dev/sdf";

/// Everything that `plan` knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observed {
    /// Who looks, and what it did so far.
    pub me: Me,
    /// When this process began its first sweep.
    pub first: BootTime,
    /// When this sweep began: everything older than [`super::Timing::settle`] before it is in it.
    pub began: BootTime,
    /// The drive's instances, also ended ones that are still listed.
    pub instances: Vec<SeenInstance>,
    /// The drive's volumes, without root disks.
    pub volumes: Vec<SeenVolume>,
    /// The drive's snapshots.
    pub snapshots: Vec<SeenSnapshot>,
    /// What claims to belong to the drive and cannot be read: id and problem.
    pub unreadable: Vec<(String, String)>,
}

/// Who looks, and what this process remembers of its own doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Me {
    /// This session.
    pub session: SessionId,
    /// When the last of one's own create or claim calls was answered.
    pub announced: Option<BootTime>,
    /// When the last create call was sent whose answer never came: it may have been carried out.
    pub unsure: Option<BootTime>,
    /// How many instances were launched.
    pub launches: u32,
    /// The volume whose generation this process raised, and to what; none again once an
    /// `AttachVolume` was sent for it: every attachment needs its own raise.
    pub raised: Option<(VolumeId, Generation)>,
    /// The volume that this process attached to a host that it holds since then, and at what
    /// generation; none again once it is to be mounted, or the host had to be taken anew.
    pub attached: Option<(VolumeId, Generation)>,
    /// The volume that was closed on its host by this process, and its generation then.
    pub closed: Option<(VolumeId, Generation)>,
    /// Hosts that answered a close, and how.
    pub closes: BTreeMap<InstanceId, Closed>,
    /// The volume that a host unmounted, or froze, when this process closed it there, and its
    /// generation then: nothing of it is missing on the disk.
    pub unmounted: Option<(VolumeId, Generation)>,
    /// The file system that a host reported on the volume it mounted.
    pub reported: Option<(VolumeId, Uuid)>,
    /// What was found in snapshots that are to stand for their volumes.
    pub verdicts: BTreeMap<SnapshotId, Verdict>,
    /// Superseded snapshots that could not be deleted: not tried again.
    pub spared: BTreeSet<SnapshotId>,
    /// The volume whose mount was refused, and why.
    pub refused: Option<(VolumeId, Refusal)>,
    /// Hosts on which attaching failed: never used again.
    pub rejected: Vec<InstanceId>,
    /// This process's attempts to snapshot, oldest first.
    pub attempts: Vec<Attempt>,
    /// Volumes that this process made and that failed, or were gone, before they were attached.
    pub failed: BTreeSet<VolumeId>,
}

/// Why a mount was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Neither blank nor a file system; no format of it ever ended on that host.
    Garbled,
    /// A file system that cannot be mounted, or anything else that may be data.
    Damaged(String),
}

/// What was found in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The drive, as it was left.
    Sound,
    /// Nothing: it could not be looked at, and that is no reason to keep the volume; why.
    Unasked(String),
    /// No answer yet.
    Open {
        /// When it was asked for first.
        first: BootTime,
        /// When last.
        last: BootTime,
    },
    /// Something else than the drive; what.
    Unsound(String),
}

impl Verdict {
    /// Whether the snapshot may stand for its volume.
    #[must_use]
    pub fn allows(&self) -> bool {
        matches!(self, Self::Sound | Self::Unasked(_))
    }
}

/// One attempt at a snapshot by this process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Of which volume.
    pub volume: VolumeId,
    /// Its `xdrive:op`.
    pub op: String,
    /// Of which kind.
    pub kind: SnapshotKind,
    /// When it was sent.
    pub at: BootTime,
}

/// One instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenInstance {
    /// Its id.
    pub id: InstanceId,
    /// Its state.
    pub state: InstanceState,
    /// Its zone.
    pub zone: Zone,
    /// When `RunInstances` accepted it, by AWS's clock: compared among instances only.
    pub launched: Timestamp,
    /// Whose it is.
    pub session: SessionId,
    /// Who that is.
    pub owner: String,
    /// Whether it was in the list (or only known to this process).
    pub listed: bool,
    /// What it said of itself.
    pub contact: Contact,
    /// Since when state and contact are as they are.
    pub since: BootTime,
    /// When this process launched it; where another did, as `since`.
    pub made: BootTime,
    /// EC2's status checks of it, if it runs and has not answered for a while.
    pub checks: Option<SeenChecks>,
    /// Its lease, as its tag has it.
    pub lease: Option<SeenLease>,
}

/// What EC2's status checks say of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenChecks {
    /// What.
    pub checks: StatusChecks,
    /// Since when they say so to this process.
    pub since: BootTime,
}

/// An instance's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenLease {
    /// When it ends, by the clock of whoever wrote it; for a person to read.
    pub until: Timestamp,
    /// When the host has certainly switched itself off, if the lease is not renewed: its end and
    /// [`super::Timing::lease_margin`], on this process's clock.
    pub off_by: BootTime,
}

/// One volume of the drive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenVolume {
    /// Its id.
    pub id: VolumeId,
    /// Its state.
    pub state: VolumeState,
    /// Its zone.
    pub zone: Zone,
    /// Its size.
    pub size: GibiBytes,
    /// How much it takes in MiB a second, where that was asked for.
    pub throughput: Option<u32>,
    /// When it was made, by AWS's clock: compared among volumes only.
    pub created: Timestamp,
    /// What it was made from.
    pub snapshot: Option<SnapshotId>,
    /// What it is attached to.
    pub attachment: Option<SeenAttachment>,
    /// The generation it started with.
    pub base: Generation,
    /// The generation it is at.
    pub generation: Generation,
    /// Created empty.
    pub blank: bool,
    /// Known to have been formatted.
    pub formatted: bool,
    /// Its file system's UUID, if that is recorded.
    pub uuid: Option<Uuid>,
    /// Whose it is.
    pub session: SessionId,
    /// Whether it was in the list.
    pub listed: bool,
    /// Since when state, attachment and generation are as they are.
    pub since: BootTime,
}

/// A volume's attachment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenAttachment {
    /// To which instance.
    pub instance: InstanceId,
    /// How far.
    pub state: AttachmentState,
    /// Under which device name.
    pub device: String,
    /// Whether terminating the instance would delete the volume.
    pub delete_on_termination: bool,
}

/// One snapshot of the drive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenSnapshot {
    /// Its id.
    pub id: SnapshotId,
    /// How far it is.
    pub state: SnapshotState,
    /// Of which volume.
    pub volume: Option<VolumeId>,
    /// That volume's size.
    pub size: GibiBytes,
    /// That volume's generation.
    pub generation: Generation,
    /// How it came to be.
    pub kind: SnapshotKind,
    /// The attempt that made it.
    pub op: String,
    /// Its file system's UUID, if that was recorded on its volume.
    pub uuid: Option<Uuid>,
    /// For checkpoints: the how manieth of its generation it is, from 1; else 0.
    pub number: u32,
    /// Since when its state is as it is.
    pub since: BootTime,
    /// Whether it is known for long enough to be in every list that anybody reads now: before that
    /// somebody may see its volume gone, and not see it.
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

    /// The snapshots of a volume.
    pub fn snapshots_of<'a>(
        &'a self,
        volume: &'a VolumeId,
    ) -> impl Iterator<Item = &'a SeenSnapshot> {
        self.snapshots
            .iter()
            .filter(move |snapshot| snapshot.volume.as_ref() == Some(volume))
    }

    /// The volumes that an instance holds, or is getting, or is letting go.
    pub fn held_by<'a>(&'a self, instance: &'a InstanceId) -> impl Iterator<Item = &'a SeenVolume> {
        self.volumes
            .iter()
            .filter(move |volume| volume.holder() == Some(instance))
    }

    /// Whether this instance is this session's.
    #[must_use]
    pub fn is_mine(&self, instance: &SeenInstance) -> bool {
        // Whoever holds the host's lock has it, whatever a stale tag says.
        match instance.client() {
            Some(Client::Me) => true,
            Some(Client::Other { .. }) => false,
            Some(Client::Nobody) | None => instance.session == self.me.session,
        }
    }

    /// Whether the instance says that it unmounted this volume, or froze it: nothing of what was
    /// written there is missing on the disk.
    #[must_use]
    pub fn is_whole(&self, instance: &SeenInstance, volume: &SeenVolume) -> bool {
        instance.view().is_some_and(|view| {
            let frozen = matches!(&view.mounted, Mounted::Frozen(frozen) if *frozen == volume.id);
            frozen || view.unmounted.as_ref() == Some(&volume.id)
        })
    }

    /// Whether the host is closed: nothing of the drive is written there any more, for good.
    #[must_use]
    pub fn is_closed(&self, instance: &SeenInstance) -> bool {
        self.me.closes.contains_key(&instance.id)
            || instance
                .view()
                .is_some_and(|view| view.closing && !matches!(view.mounted, Mounted::Volume(_)))
    }
}

impl SeenInstance {
    /// Whether it runs or is about to.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// Whether EC2 has it as booting still, and may have for so long.
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

    /// What it said of itself, if it answered.
    #[must_use]
    pub fn view(&self) -> Option<&HostView> {
        match &self.contact {
            Contact::Reached(view) => Some(view),
            Contact::NotAsked | Contact::Unreachable | Contact::KeyRefused => None,
        }
    }

    /// Who holds it, if it answered.
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        self.view().map(|view| &view.client)
    }
}

impl SeenVolume {
    /// Whether it still exists, as far as deletions have been asked for.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(self.state, VolumeState::Deleting | VolumeState::Deleted)
    }

    /// The instance that holds it, in whatever state the attachment is.
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

    /// Whether nobody can have put anything on it: created empty, at most attached once, and not
    /// marked formatted, which comes before the first use.
    #[must_use]
    pub fn is_unformatted(&self) -> bool {
        self.blank
            && !self.formatted
            && self.base == Generation::EMPTY
            && self.generation == Generation::EMPTY.next()
    }
}

impl SeenSnapshot {
    /// Whether it holds all of its volume's generation, once completed.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.kind != SnapshotKind::Checkpoint
    }
}
