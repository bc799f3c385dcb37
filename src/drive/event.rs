//! Progress as data: what the loop tells while it works. Nothing here prints.

use std::time::Duration;

use crate::ec2::{GibiBytes, InstanceId, SnapshotId, StatusChecks};

use super::plan::{Skipped, Step, Waiting};
use super::pools::{LeftOut, Offer, Pool};
use super::quotas::Reached;

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A step is being carried out.
    Started(Step),
    /// It was carried out; ids of new things are in `what`.
    Finished {
        /// The step.
        step: Step,
        /// What it made, if anything: an id.
        made: Option<String>,
        /// How long it took.
        took: Duration,
    },
    /// It failed.
    Failed {
        /// The step.
        step: Step,
        /// Why.
        error: String,
        /// Whether the loop looks again and decides anew; if not, the run fails of it.
        again: bool,
    },
    /// EC2 could not be asked how things are; it is asked again after a pause.
    LookFailed(String),
    /// Nothing to do but wait, now for this (told once for each thing waited for).
    Waiting(Waiting),
    /// It is waited for this no longer.
    Waited {
        /// For what.
        what: Waiting,
        /// Whether it is there.
        came: bool,
        /// How long.
        took: Duration,
    },
    /// This is about to be launched.
    Launching {
        /// What.
        offer: Box<Offer>,
        /// How large the drive is to be at least.
        size: GibiBytes,
    },
    /// The root disk of an instance that is launched now is not encrypted by xdrive: what its image
    /// calls its root device is not known.
    RootAsItIs {
        /// Which image.
        image: String,
    },
    /// A pool had nothing; the next one is tried.
    NoCapacity {
        /// Which.
        pool: Pool,
        /// AWS's words.
        error: String,
        /// The quota that stands in the way, if one does.
        reached: Option<Box<Reached>>,
    },
    /// The account's plan does not have this type, nor any that the free tier has not.
    NotEligible {
        /// Which.
        instance_type: String,
    },
    /// An instance was launched; told before the step is finished.
    Launched {
        /// Its id.
        made: String,
        /// Where it came from.
        offer: Box<Offer>,
    },
    /// Something that was wanted is not among the pools that are tried.
    LeftOut(LeftOut),
    /// A drive of this size is being made empty: there is none of this name.
    NewDrive {
        /// How large.
        size: GibiBytes,
        /// What it costs a month while it is a volume, in US cents.
        cents: u64,
    },
    /// An instance that was launched here has ended, and nobody here ended it.
    EndedByItself {
        /// Which.
        instance: InstanceId,
        /// Why, as far as EC2 says.
        reason: Option<String>,
    },
    /// A host has been running for a while and does not answer.
    Silent {
        /// Which.
        instance: InstanceId,
        /// For how long.
        since: Duration,
        /// What comes back instead.
        why: String,
    },
    /// What EC2's status checks say of a host that does not answer; told when it changes.
    Checks {
        /// Which.
        instance: InstanceId,
        /// What they say.
        checks: StatusChecks,
        /// How long after its launch it may be booting.
        limit: Duration,
    },
    /// EC2's status checks of a host that does not answer may not be read: it is judged by time.
    Unchecked {
        /// Which.
        instance: InstanceId,
        /// Why.
        why: String,
    },
    /// What a host that never answered wrote to its console.
    Console {
        /// Which host.
        instance: InstanceId,
        /// The end of it.
        text: String,
    },
    /// What is in a snapshot could not be looked at, and will not be: it stands for its volume all
    /// the same.
    Unverified {
        /// Which.
        snapshot: SnapshotId,
        /// Why.
        why: String,
    },
    /// A checkpoint was taken; it is being copied.
    Checkpoint {
        /// Its snapshot.
        snapshot: SnapshotId,
        /// How long sync and call took.
        took: Duration,
    },
    /// No checkpoint was taken.
    CheckpointSkipped(Skipped),
    /// An interrupt was heard and cannot be followed yet: stopping here could lose data.
    CannotStop,
    /// An interrupt was heard: from now on everything is undone, or saved if it was used.
    Ending,
}
