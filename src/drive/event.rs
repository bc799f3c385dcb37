//! Progress as data: the events that the loop emits. Nothing here prints.

use std::time::Duration;

use crate::ec2::{GibiBytes, Price, StatusChecks};
use crate::ids::{InstanceId, SnapshotId, VolumeId};

use super::plan::{Skipped, Step, Waiting};
use super::pools::{LeftOut, Offer, Pool};
use super::quotas::Reached;

/// An event of the loop, for whoever prints its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A step is being carried out.
    Started(Step),
    /// A step was carried out.
    Finished {
        /// The step.
        step: Step,
        /// The id of what it made, if it made something; the name that a fork was given.
        made: Option<String>,
        /// How long it took.
        took: Duration,
    },
    /// A step failed.
    Failed {
        /// The step.
        step: Step,
        /// Why.
        error: String,
        /// Whether the loop sweeps and plans again; if not, this error ends the run.
        again: bool,
    },
    /// A sweep failed; it is repeated after a pause.
    LookFailed(String),
    /// The loop waits, now for this; once for each thing waited for.
    Waiting(Waiting),
    /// The loop no longer waits for this.
    Waited {
        /// The thing that the loop waited for.
        what: Waiting,
        /// Whether that came.
        came: bool,
        /// How long it waited.
        took: Duration,
    },
    /// An instance is about to be launched.
    Launching {
        /// The offer.
        offer: Box<Offer>,
        /// The least size of the drive.
        size: GibiBytes,
    },
    /// The next instance's root disk is as the image and the account have it, not encrypted by
    /// xdrive: the name of the image's root device is not known.
    RootAsItIs {
        /// The image.
        image: String,
    },
    /// A pool had no capacity; the next one is tried.
    NoCapacity {
        /// The pool.
        pool: Pool,
        /// AWS's error.
        error: String,
        /// The quota that was reached, if one was.
        reached: Option<Box<Reached>>,
    },
    /// The account's plan excludes this type, as all outside the free tier.
    NotEligible {
        /// The type.
        instance_type: String,
    },
    /// An instance was launched; comes before the step is finished.
    Launched {
        /// The instance's id.
        made: String,
        /// The offer it came from.
        offer: Box<Offer>,
    },
    /// A requested type or market is not among the pools that are tried.
    LeftOut(LeftOut),
    /// An empty volume is being made: there is no drive of this name.
    NewDrive {
        /// The volume's size.
        size: GibiBytes,
        /// The volume's cost a month.
        cost: Price,
    },
    /// An instance that this process launched has ended, and this process did not end it.
    EndedByItself {
        /// The instance.
        instance: InstanceId,
        /// EC2's reason, if it gives one.
        reason: Option<String>,
    },
    /// A host has been running for a while and does not answer.
    Silent {
        /// The instance.
        instance: InstanceId,
        /// For how long.
        since: Duration,
        /// The error that came instead of an answer.
        why: String,
    },
    /// EC2's status checks of a host that does not answer, when they change.
    Checks {
        /// The instance.
        instance: InstanceId,
        /// The checks' results.
        checks: StatusChecks,
        /// How long after its launch it may be booting.
        limit: Duration,
    },
    /// The caller may not read EC2's status checks of a host that does not answer: time alone
    /// decides.
    Unchecked {
        /// The instance.
        instance: InstanceId,
        /// Why.
        why: String,
    },
    /// The console of a host that never answered.
    Console {
        /// The instance.
        instance: InstanceId,
        /// The end of its output.
        text: String,
    },
    /// A snapshot could not be verified, and will not be: it stands for its volume all the same.
    Unverified {
        /// The snapshot.
        snapshot: SnapshotId,
        /// Why.
        why: String,
    },
    /// A volume that was to be thrown away is kept: the snapshot that it was made from is gone, and it
    /// may be the only one with the state of that.
    OriginGone(VolumeId),
    /// A checkpoint was taken; it is being copied.
    Checkpoint {
        /// The checkpoint's snapshot.
        snapshot: SnapshotId,
        /// How long sync and call took.
        took: Duration,
    },
    /// No checkpoint was taken.
    CheckpointSkipped(Skipped),
    /// An interrupt came, and the run cannot stop yet: that could lose data.
    CannotStop,
    /// An interrupt came: from now on everything is undone, or saved if the drive was used.
    Ending,
}
