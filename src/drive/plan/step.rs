//! The words of the plan: goals, steps, and what the rules look at.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::super::hosts::MountOrder;
use super::super::name::Generation;
use super::super::observed::Observed;
use super::super::proof::{DeletionGrounds, FailedSnapshot, PruningGrounds, TerminationGrounds};
use super::super::stuck::{Head, Left, Stuck, Why};
use super::super::tags::SnapshotKind;
use crate::clock::BootTime;
use crate::drive::timing::Timing;
use crate::ec2::{InstanceId, SnapshotId, VolumeId, Zone};
use uuid::Uuid;

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The drive, mounted on a host that this process holds. `from` chooses between lines; what
    /// is not chosen is kept under another drive's name.
    Ready {
        /// The choice of `--from`, if one was made.
        from: Option<Head>,
    },
    /// What this session made or claimed is gone again: saved if the drive was attached, undone
    /// otherwise. Nothing else is touched. What an interrupted connect wants.
    Ended,
    /// The drive is off its host and nothing of it runs: closed, a snapshot begun. Its volume
    /// stays, to be mounted elsewhere at once. What a session wants that is to go on on another
    /// instance.
    Parked,
    /// The whole drive is saved and nothing of it runs.
    Saved {
        /// Whether a drive that another live xdrive uses is saved all the same.
        even_if_used: bool,
    },
}

/// What a volume is made from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Nothing: a new drive.
    Empty,
    /// A snapshot and its generation.
    Snapshot(SnapshotId, Generation),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Launch an instance, in this zone if one is needed.
    Launch {
        /// The zone of a volume that is waiting.
        zone: Option<Zone>,
    },
    /// Make a volume.
    CreateVolume {
        /// Where.
        zone: Zone,
        /// From what.
        from: Source,
    },
    /// Take the host's client lock, then write this session into its tags and its volume's.
    Claim(InstanceId),
    /// Raise the volume's generation.
    Raise {
        /// Which.
        volume: VolumeId,
        /// To what.
        to: Generation,
    },
    /// Attach it: after the raise.
    Attach {
        /// Which.
        volume: VolumeId,
        /// Where.
        instance: InstanceId,
        /// The generation it was raised to.
        generation: Generation,
    },
    /// Read its generation back until it is as raised, and mount it. Its host waits for the device.
    Mount {
        /// Where.
        instance: InstanceId,
        /// What and how.
        order: MountOrder,
    },
    /// Record that the volume is formatted, before anybody uses it.
    MarkFormatted {
        /// Which.
        volume: VolumeId,
        /// At what generation.
        generation: Generation,
    },
    /// Record which file system is on the volume, as its host reported it.
    MarkUuid {
        /// Which.
        volume: VolumeId,
        /// Its file system's.
        uuid: Uuid,
    },
    /// Look at what is in a snapshot that is to stand for its volume.
    Verify {
        /// Which.
        snapshot: SnapshotId,
        /// The file system it is to hold, if that is recorded.
        uuid: Option<Uuid>,
        /// How it is to have been left.
        kind: SnapshotKind,
    },
    /// Let the disk outlive its instance.
    KeepOnTermination {
        /// Whose.
        instance: InstanceId,
        /// Which.
        device: String,
    },
    /// Close the drive on its host.
    Close {
        /// Where.
        instance: InstanceId,
        /// What is there, and its generation.
        volume: Option<(VolumeId, Generation)>,
    },
    /// Take a snapshot.
    Snapshot {
        /// Of what.
        volume: VolumeId,
        /// At what generation.
        generation: Generation,
        /// Of which kind.
        kind: SnapshotKind,
    },
    /// Detach.
    Detach {
        /// What.
        volume: VolumeId,
        /// From where.
        instance: InstanceId,
        /// Whether the instance is to be used no more, because attaching there failed.
        reject: bool,
    },
    /// Show what the host wrote to its console.
    ShowConsole(InstanceId),
    /// Terminate an instance.
    Terminate(TerminationGrounds),
    /// Delete a volume.
    DeleteVolume(DeletionGrounds),
    /// Delete a snapshot that failed.
    DeleteSnapshot(FailedSnapshot),
    /// Delete a snapshot that later ones supersede.
    Prune(PruningGrounds),
    /// Keep a line that was not chosen: under the name of a fork, one for each `line`.
    Fork {
        /// The line's end to be renamed.
        head: Head,
        /// What tells the lines apart: the volume that it is, or was taken of.
        line: Option<VolumeId>,
    },
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Until every list shows what was true when this process began, or made its things.
    Settle,
    /// Until an instance runs and answers.
    Host(InstanceId),
    /// Until another xdrive uses the host it launched, or shows that it never will.
    OtherStarting(InstanceId),
    /// Until a host that is closing has closed.
    Closing(InstanceId),
    /// Until a volume is made.
    Volume(VolumeId),
    /// Until a volume is attached.
    Attaching(VolumeId),
    /// Until a volume is let go.
    Release(VolumeId),
    /// Until a snapshot is whole.
    Copy(SnapshotId),
    /// Until what is in a snapshot can be looked at.
    Verdict(SnapshotId),
    /// Until the volume may be snapshotted again.
    SnapshotGap(VolumeId),
    /// Until an ended instance is gone.
    Termination(InstanceId),
    /// Until a silent host has certainly switched itself off: some time after its lease ends.
    Lease(InstanceId, Timestamp),
}

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// These, now; they do not depend on each other.
    Do(Vec<Step>),
    /// Nothing but look again, at the latest after this long: something changes by itself then.
    Wait(Waiting, Duration),
    /// The goal is reached.
    Done(Done),
    /// Another live xdrive has the drive on this instance.
    Busy(InstanceId),
    /// It cannot go on safely.
    Stuck(Stuck),
}

/// A goal that is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Done {
    /// Mounted and held.
    Ready {
        /// Where.
        instance: InstanceId,
        /// Which.
        volume: VolumeId,
        /// At what generation.
        generation: Generation,
    },
    /// Off its host; the newest snapshot there is or will be.
    Parked(Option<(SnapshotId, Generation)>),
    /// Nothing is left to do; the newest snapshot there is.
    Saved(Option<(SnapshotId, Generation)>),
}

/// What the rules look at.
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

    /// Whether this process has looked long enough: everything older than its first look, and
    /// everything it did itself, is in the lists, and it is in them by name.
    pub(super) fn is_settled(&self) -> bool {
        let me = &self.seen.me;
        self.has_looked()
            && me.announced.is_none_or(|moment| self.shows(moment))
            && me.unsure.is_none_or(|moment| self.shows(moment))
            && self.seen.instances.iter().all(|instance| instance.listed)
            && self.seen.volumes.iter().all(|volume| volume.listed)
    }

    /// Whether everything older than this process's first look is in the lists.
    pub(super) fn has_looked(&self) -> bool {
        self.shows(self.seen.first)
    }

    /// Waits until a limit counted from `since` is over; `None` if it is.
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

    /// Stuck, once the lists are settled: a stale list must not frighten anybody.
    pub(super) fn stuck(&self, why: Why) -> Next {
        if !self.is_settled() {
            return self.settle();
        }
        Next::Stuck(Stuck {
            why,
            left: Left::of(self.seen),
        })
    }

    pub(super) fn wait(&self, what: Waiting) -> Next {
        Next::Wait(what, self.timing.poll)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch { zone: Some(zone) } => write!(f, "launch an instance in {zone}"),
            Self::Launch { zone: None } => f.write_str("launch an instance"),
            Self::CreateVolume {
                zone,
                from: Source::Empty,
            } => {
                write!(f, "create an empty volume in {zone}")
            }
            Self::CreateVolume {
                zone,
                from: Source::Snapshot(id, _),
            } => {
                write!(f, "create a volume from {id} in {zone}")
            }
            Self::Claim(instance) => write!(f, "log in to {instance}"),
            Self::Raise { volume, to } => write!(f, "announce generation {to} on {volume}"),
            Self::Attach {
                volume, instance, ..
            } => write!(f, "attach {volume} to {instance}"),
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
            Self::Fork { head, .. } => write!(f, "keep {head} as a fork"),
        }
    }
}
