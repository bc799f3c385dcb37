//! The plan's types: goals, steps, and the view that the rules have.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::super::observed::Observed;
use super::super::proof::{DeletionGrounds, FailedSnapshot, PruningGrounds, TerminationGrounds};
use super::super::source::{CopyOrder, Source};
use super::super::stuck::{Head, Left, Stuck, Why};
use super::super::tags::{Leaving, SnapshotKind};
use crate::clock::BootTime;
use crate::drive::timing::Timing;
use crate::ec2::Zone;
use crate::host::MountOrder;
use crate::ids::{DriveName, Generation, InstanceId, SnapshotId, Uuid, VolumeId};

/// The state that a run works towards.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The drive is mounted on a host whose client lock this process has. `from` chooses between
    /// lineages; the others are kept under other drives' names.
    Ready {
        /// The choice of `--from`, if one was made.
        from: Option<Head>,
    },
    /// A volume that was made from the drive's newest snapshot, and that this session throws away, is
    /// mounted on a host of its own. The drive is wholly saved, and stays as it is.
    Throwaway,
    /// The resources that this session made or claimed are ended: saved if the drive was attached,
    /// undone otherwise. Nothing else is changed. The goal of an interrupted connect.
    Ended,
    /// The drive is closed, a snapshot of it begun, and no instance runs but one that is left to EC2. Its volume stays, to be
    /// mounted elsewhere at once. The goal of a session that moves to another instance.
    Parked,
    /// The whole drive is saved and no instance of it runs.
    Saved {
        /// Whether to save a drive that another live xdrive uses.
        even_if_used: bool,
    },
    /// The drive, which is saved and at rest before, has no resource left.
    Deleted {
        /// The drive's snapshots as the user was shown them. One that came later was not agreed to.
        shown: BTreeSet<SnapshotId>,
    },
    /// All of the drive, which is saved and at rest before, has this name.
    Renamed(DriveName),
    /// The drive, which was new, has the copy of another drive's snapshot.
    Copied(Box<CopyOrder>),
}

impl Goal {
    /// Whether it is a mounted volume; else the end of what there is.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        matches!(self, Self::Ready { .. } | Self::Throwaway)
    }

    /// Whether an interrupt stops the way to it between two steps: nobody works on the drive, nothing
    /// runs that costs by the second, and the same goal goes on from there.
    #[must_use]
    pub fn goes_on_later(&self) -> bool {
        matches!(
            self,
            Self::Deleted { .. } | Self::Renamed(_) | Self::Copied(_)
        )
    }
}

/// A step of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Launch an instance.
    Launch {
        /// The zone of the existing volume, if there is one.
        zone: Option<Zone>,
        /// Whether it is for a volume that this session throws away.
        throwaway: bool,
    },
    /// Make a volume.
    CreateVolume {
        /// The volume's zone.
        zone: Zone,
        /// The volume's source.
        from: Source,
    },
    /// Take the host's client lock, then write this session into its tags and its volume's.
    Claim(InstanceId),
    /// Raise the volume's generation.
    Raise {
        /// The volume.
        volume: VolumeId,
        /// The new generation.
        to: Generation,
    },
    /// Attach the volume, after the raise.
    Attach {
        /// The volume.
        volume: VolumeId,
        /// The instance.
        instance: InstanceId,
        /// The generation it was raised to.
        generation: Generation,
    },
    /// Attach a volume that this session throws away. No generation announces it.
    AttachThrowaway {
        /// The volume.
        volume: VolumeId,
        /// The instance.
        instance: InstanceId,
    },
    /// Read the volume's generation back until it is as raised, and mount it. Its host waits for
    /// the device.
    Mount {
        /// The instance.
        instance: InstanceId,
        /// The volume, and how.
        order: MountOrder,
    },
    /// Record that the volume is formatted, before it is used.
    MarkFormatted {
        /// The volume.
        volume: VolumeId,
        /// The volume's generation.
        generation: Generation,
    },
    /// Record the volume's file system, as its host reported it.
    MarkUuid {
        /// The volume.
        volume: VolumeId,
        /// The file system's UUID.
        uuid: Uuid,
    },
    /// Verify a snapshot that is to stand for its volume.
    Verify {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The file system it must hold, if that is recorded.
        uuid: Option<Uuid>,
        /// How that must have been left.
        kind: SnapshotKind,
    },
    /// Set `DeleteOnTermination` of a disk to false.
    KeepOnTermination {
        /// The instance.
        instance: InstanceId,
        /// The disk's device name.
        device: String,
    },
    /// Close the drive on its host.
    Close {
        /// The instance.
        instance: InstanceId,
        /// The volume there, and its generation.
        volume: Option<(VolumeId, Generation)>,
    },
    /// Take a snapshot.
    Snapshot {
        /// The volume.
        volume: VolumeId,
        /// The volume's generation.
        generation: Generation,
        /// The snapshot's kind.
        kind: SnapshotKind,
    },
    /// Detach a volume.
    Detach {
        /// The volume.
        volume: VolumeId,
        /// The instance.
        instance: InstanceId,
        /// Whether the instance is used no more, because attaching there failed.
        reject: bool,
    },
    /// Show the instance's console.
    ShowConsole(InstanceId),
    /// Terminate an instance.
    Terminate(TerminationGrounds),
    /// Delete a volume.
    DeleteVolume(DeletionGrounds),
    /// Delete a snapshot that failed.
    DeleteSnapshot(FailedSnapshot),
    /// Delete a snapshot that later ones supersede.
    Prune(PruningGrounds),
    /// Mark a snapshot of a drive that is being deleted or renamed.
    Mark {
        /// The snapshot.
        snapshot: SnapshotId,
        /// Why it leaves the drive.
        leaving: Leaving,
    },
    /// Give a snapshot of a drive that is being renamed to its new name.
    Rename {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The name.
        to: DriveName,
    },
    /// Delete a snapshot of a drive that is being deleted.
    Erase(PruningGrounds),
    /// Copy a snapshot of another drive, of another region or of nobody's, or take one of a volume
    /// that is no drive's.
    CopySnapshot(Box<CopyOrder>),
    /// Keep a lineage that was not chosen under the name of a fork, one for each lineage.
    Fork {
        /// The volume or snapshot to be renamed.
        head: Head,
        /// The volume that it is or was taken of, which identifies its lineage.
        lineage: Option<VolumeId>,
    },
}

/// The condition that the plan waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Until every list shows what was true when this process began, or made its things.
    Settle,
    /// Until an instance runs and answers.
    Host(InstanceId),
    /// Until another xdrive uses the host it launched, or has had the time to.
    OtherStarting(InstanceId),
    /// Until a host that is closing has closed.
    Closing(InstanceId),
    /// Until a volume is made.
    Volume(VolumeId),
    /// Until a volume is attached.
    Attaching(VolumeId),
    /// Until a volume is detached.
    Release(VolumeId),
    /// Until a snapshot is completed.
    Copy(SnapshotId),
    /// Until a snapshot can be verified.
    Verdict(SnapshotId),
    /// Until the volume may be snapshotted again.
    SnapshotGap(VolumeId),
    /// Until EC2 takes an instance that had its notice.
    Taking(InstanceId),
    /// Until an ended instance is gone.
    Termination(InstanceId),
    /// Until a host that does not answer has certainly switched itself off: some time after its
    /// lease ends.
    Lease(InstanceId, Timestamp),
}

/// The plan's decision after a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// Carry out these steps; they do not depend on each other.
    Do(Vec<Step>),
    /// Sweep again, at the latest after this long.
    Wait(Waiting, Duration),
    /// The goal is reached.
    Done(Done),
    /// Another live xdrive has the drive on this instance; the plan stops.
    Busy(InstanceId),
    /// The plan cannot go on safely.
    Stuck(Stuck),
}

/// The goal that is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Done {
    /// The drive is mounted, and this process has the host's client lock.
    Ready {
        /// The instance.
        instance: InstanceId,
        /// The volume.
        volume: VolumeId,
        /// The volume's generation.
        generation: Generation,
    },
    /// The drive is off its host; its newest snapshot, completed or pending.
    Parked(Option<(SnapshotId, Generation)>),
    /// The drive is saved; its newest snapshot.
    Saved(Option<(SnapshotId, Generation)>),
    /// The drive has no resource left.
    Deleted,
    /// The whole drive has the other name.
    Renamed,
    /// The drive has the copy, and nothing else.
    Copied(SnapshotId, Generation),
}

/// The view that the rules have.
pub(super) struct View<'a> {
    pub(super) seen: &'a Observed,
    pub(super) now: BootTime,
    pub(super) timing: &'a Timing,
}

impl View<'_> {
    /// Whether everything that was so at `moment` is in the lists of this sweep.
    pub(super) fn shows(&self, moment: BootTime) -> bool {
        self.seen.began >= moment + self.timing.settle
    }

    /// Whether the lists are settled: they have everything older than this process's first sweep,
    /// and everything that it did itself, and they have it by id.
    pub(super) fn is_settled(&self) -> bool {
        let me = &self.seen.me;
        self.has_looked()
            && me.announced.is_none_or(|moment| self.shows(moment))
            && me.unsure.is_none_or(|moment| self.shows(moment))
            && self.seen.instances.iter().all(|instance| instance.listed)
            && self.seen.all_volumes().all(|volume| volume.listed)
    }

    /// Whether everything older than this process's first sweep is in the lists.
    pub(super) fn has_looked(&self) -> bool {
        self.shows(self.seen.first)
    }

    /// Waits for as long as `limit` from `since`; `None` if that is over.
    pub(super) fn wait_within(
        &self,
        what: Waiting,
        since: BootTime,
        limit: Duration,
    ) -> Option<Next> {
        let passed = self.now.since(since);
        let left = limit.saturating_sub(passed);
        (!left.is_zero()).then_some(Next::Wait(what, left))
    }

    /// Waits until a moment has come; `None` if it has.
    pub(super) fn until(&self, what: Waiting, moment: BootTime) -> Option<Next> {
        let left = moment.since(self.now);
        (!left.is_zero()).then_some(Next::Wait(what, left))
    }

    pub(super) fn settle(&self) -> Next {
        Next::Wait(Waiting::Settle, self.timing.settle)
    }

    /// Stuck, once the lists are settled: a stale list may show a problem that is over.
    pub(super) fn stuck(&self, why: Why) -> Next {
        if !self.is_settled() {
            return self.settle();
        }
        Next::Stuck(Stuck {
            why,
            left: Left::from_observed(self.seen),
        })
    }

    pub(super) fn wait(&self, what: Waiting) -> Next {
        Next::Wait(what, self.timing.longest_poll())
    }
}

/// With bare ids, as `--json` has them; the session's progress has the words for people.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch {
                zone: Some(zone), ..
            } => write!(f, "launch an instance in {zone}"),
            Self::Launch { zone: None, .. } => f.write_str("launch an instance"),
            Self::CreateVolume {
                zone,
                from: Source::Empty,
            } => {
                write!(f, "create an empty volume in {zone}")
            }
            Self::CreateVolume {
                zone,
                from: Source::Snapshot(id, _) | Source::Throwaway(id, _),
            } => {
                write!(f, "create a volume from {id} in {zone}")
            }
            Self::Claim(instance) => write!(f, "log in to {instance}"),
            Self::Raise { volume, to } => write!(f, "announce generation {to} on {volume}"),
            Self::Attach {
                volume, instance, ..
            }
            | Self::AttachThrowaway { volume, instance } => {
                write!(f, "attach {volume} to {instance}")
            }
            Self::Mount { order, .. } => write!(f, "mount {}", order.volume),
            Self::MarkFormatted { volume, .. } => write!(f, "record that {volume} is formatted"),
            Self::MarkUuid { volume, uuid } => write!(f, "record that {volume} holds {uuid}"),
            Self::Verify { snapshot, .. } => write!(f, "verify {snapshot}"),
            Self::KeepOnTermination { instance, device } => {
                write!(f, "keep {device} of {instance} when it ends")
            }
            Self::Close { instance, .. } => write!(f, "close the drive on {instance}"),
            Self::Snapshot { volume, .. } => write!(f, "snapshot {volume}"),
            Self::Detach {
                volume, instance, ..
            } => write!(f, "detach {volume} from {instance}"),
            Self::ShowConsole(instance) => write!(f, "read the console of {instance}"),
            Self::Terminate(grounds) => write!(f, "terminate {}", grounds.instance()),
            Self::DeleteVolume(grounds) => write!(f, "delete {}", grounds.volume()),
            Self::DeleteSnapshot(failed) => write!(f, "delete failed {}", failed.snapshot()),
            Self::Prune(grounds) => write!(f, "delete superseded {}", grounds.snapshot()),
            Self::Mark { snapshot, leaving } => write!(f, "mark {snapshot} as {leaving}"),
            Self::Rename { snapshot, to } => write!(f, "give {snapshot} to {to}"),
            Self::Erase(grounds) => write!(f, "delete {}", grounds.snapshot()),
            Self::CopySnapshot(order) => write!(f, "copy {}", order.source),
            Self::Fork { head, .. } => write!(f, "keep {head} as a fork"),
        }
    }
}
