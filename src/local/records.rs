//! The records in the state file, one for each resource, made of time stamps.
//!
//! A record has *when* each transition happens or happened, never a state: states are functions of
//! a record and a moment. So nothing runs in the background, and a stale list is the same function
//! with an earlier moment.
//!
//! Nothing here reads a clock, a parameter or the disk.

mod addresses;
mod groups;
mod modifications;
mod reservations;
mod shares;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plane::{PaperSuperblock, Up};
use super::settings::Boots;

pub(super) use addresses::{Address, Association};
pub(super) use groups::{Group, Peer, Rule};
pub(super) use modifications::{Modification, Shape};
pub(super) use reservations::CapacityReservation;
pub(super) use shares::{FileSystem, Target};

/// EC2's instance states, with their codes (API reference, `InstanceState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstanceState {
    Pending = 0,
    Running = 16,
    ShuttingDown = 32,
    Terminated = 48,
    Stopping = 64,
    Stopped = 80,
}

impl InstanceState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

/// A client token, with the parameters of its first use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) word: String,
    /// The requested zone, if any: a token holds in one zone.
    pub(super) zone: Option<String>,
    /// A digest of all other parameters.
    pub(super) parameters: String,
}

/// The end of an instance, by a call or by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) since: Timestamp,
    /// When the machine was off; none while it runs.
    pub(super) done: Option<Timestamp>,
    /// Whether it switched itself off.
    pub(super) by_itself: bool,
    /// Whether it never ran, because booting it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) failed: bool,
}

impl Ending {
    /// An end by a call.
    pub(super) fn by_call(since: Timestamp) -> Self {
        Self {
            since,
            done: None,
            by_itself: false,
            failed: false,
        }
    }

    /// An end by the instance itself.
    pub(super) fn by_itself(since: Timestamp) -> Self {
        Self {
            by_itself: true,
            ..Self::by_call(since)
        }
    }

    /// The end of an instance that never ran.
    pub(super) fn failed(since: Timestamp) -> Self {
        Self {
            failed: true,
            ..Self::by_itself(since)
        }
    }
}

/// A spot interruption: announced, then carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interruption {
    /// When it was announced.
    pub(super) noticed: Timestamp,
    /// When the instance ends, if it still runs.
    pub(super) at: Timestamp,
}

/// The one-time spot request behind a spot instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spot {
    pub(super) id: String,
    pub(super) max_price: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interruption: Option<Interruption>,
    /// Whether the launch failed, since its key is not EC2's role's to use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) locked: bool,
    pub(super) tags: Tags,
}

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) reservation: String,
    pub(super) launch_index: u32,
    pub(super) token: Option<Token>,
    pub(super) image: String,
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) spot: Option<Spot>,
    pub(super) groups: Vec<String>,
    /// Whether it has a public address while it runs; it equals the private one.
    #[serde(default = "yes")]
    pub(super) public: bool,
    pub(super) tokens_required: bool,
    pub(super) hop_limit: u32,
    /// Whether switching itself off terminates it, instead of stopping it.
    pub(super) terminates_itself: bool,
    /// The ARN of its instance profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<String>,
    /// The id of the capacity reservation in which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<String>,
    /// The machine behind it, while it has one.
    pub(super) machine: Up,
    pub(super) launched: Timestamp,
    pub(super) running: Timestamp,
    /// How it boots once it runs.
    #[serde(default)]
    pub(super) boot: Boots,
    /// Since when its status check fails, if it hangs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) impaired: Option<Timestamp>,
    pub(super) stop: Option<Ending>,
    pub(super) termination: Option<Ending>,
    pub(super) tags: Tags,
}

/// The value of records that are older than the field.
fn yes() -> bool {
    true
}

impl Instance {
    /// The instance's state at `at`; `None` before its launch. The end of its listing is not known
    /// here.
    pub(super) fn state(&self, at: Timestamp) -> Option<InstanceState> {
        let reached = |ending: Option<Ending>, over, under_way| {
            let ending = ending.filter(|ending| ending.since <= at)?;
            Some(if ending.done.is_some_and(|done| done <= at) {
                over
            } else {
                under_way
            })
        };
        if at < self.launched {
            return None;
        }
        Some(
            reached(
                self.last_end(),
                InstanceState::Terminated,
                InstanceState::ShuttingDown,
            )
            .or_else(|| reached(self.stop, InstanceState::Stopped, InstanceState::Stopping))
            .unwrap_or(if at < self.running {
                InstanceState::Pending
            } else {
                InstanceState::Running
            }),
        )
    }

    /// When its machine boots; never, if it fails to.
    pub(super) fn boots(&self) -> Option<Timestamp> {
        (!self.boot.fails).then(|| self.boot_ends())
    }

    /// When it has booted, or should have.
    pub(super) fn boot_ends(&self) -> Timestamp {
        self.running + Duration::from_secs(self.boot.seconds.into())
    }

    /// The end that had begun by `at`: the termination of one that was stopped, then terminated.
    pub(super) fn ending(&self, at: Timestamp) -> Option<Ending> {
        let begun = |ending: &Ending| ending.since <= at;
        self.last_end().filter(begun).or(self.stop.filter(begun))
    }

    /// The instance's termination: begun, or to come by an interruption.
    fn last_end(&self) -> Option<Ending> {
        let interrupted = |interruption: Interruption| Ending::by_itself(interruption.at);
        self.termination
            .or_else(|| self.interruption().map(interrupted))
    }

    /// The interruption of a Spot instance, if it was announced.
    pub(super) fn interruption(&self) -> Option<Interruption> {
        self.spot.as_ref()?.interruption
    }

    /// Whether its interruption caused `ending`.
    pub(super) fn is_interrupted(&self, ending: Ending) -> bool {
        ending.by_itself
            && self
                .interruption()
                .is_some_and(|interruption| interruption.at <= ending.since)
    }

    /// Whether it still has a machine.
    pub(super) fn has_machine(&self) -> bool {
        let over = |ending: Option<Ending>| ending.is_some_and(|ending| ending.done.is_some());
        !over(self.termination) && !over(self.stop)
    }
}

/// A volume's attachment to an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attachment {
    pub(super) instance: String,
    pub(super) device: String,
    pub(super) attaching: Timestamp,
    pub(super) attached: Timestamp,
    /// When `DetachVolume` was called.
    pub(super) detaching: Option<Timestamp>,
    /// When it is detached; none while the machine holds it.
    pub(super) detached: Option<Timestamp>,
    /// `DeleteOnTermination`, each value with the moment from which it holds.
    pub(super) delete_on_termination: Vec<(Timestamp, bool)>,
}

impl Attachment {
    /// Whether it exists at `at`, on the way in and out included.
    pub(super) fn holds(&self, at: Timestamp) -> bool {
        self.attaching <= at && self.detached.is_none_or(|detached| at < detached)
    }

    /// The attachment's status at `at` as EC2 writes it; after `patience`, a `detaching` one is
    /// `busy`.
    pub(super) fn status(&self, at: Timestamp, patience: std::time::Duration) -> &'static str {
        match (self.detaching.filter(|since| *since <= at), self.detached) {
            (Some(since), None) if since + patience < at => "busy",
            (Some(_), _) => "detaching",
            (None, _) if at < self.attached => "attaching",
            (None, _) => "attached",
        }
    }

    /// Whether terminating the instance deletes the volume, as of `at`.
    pub(super) fn deletes(&self, at: Timestamp) -> bool {
        self.delete_on_termination
            .iter()
            .rev()
            .find(|(since, _)| *since <= at)
            .is_some_and(|(_, deletes)| *deletes)
    }
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Volume {
    pub(super) token: Option<Token>,
    pub(super) zone: String,
    /// The shape that it was made with.
    pub(super) gib: u32,
    pub(super) kind: String,
    pub(super) iops: Option<u32>,
    pub(super) throughput: Option<u32>,
    /// The rate at which the volume is initialized from its snapshot, in MiB a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) initialization: Option<u32>,
    pub(super) encrypted: bool,
    /// The ARN of its key, if that is one of the account's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    pub(super) snapshot: Option<String>,
    /// [`Snapshot::origin`] of that.
    pub(super) origin: Option<String>,
    /// The root disk of an instance: it is part of the machine, not a file of its own.
    pub(super) root: bool,
    pub(super) created: Timestamp,
    pub(super) available: Timestamp,
    pub(super) failed: Option<Timestamp>,
    pub(super) deleting: Option<Timestamp>,
    pub(super) deleted: Option<Timestamp>,
    pub(super) attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) modifications: Vec<Modification>,
    /// The superblock on a paper volume, once it is formatted.
    #[serde(rename = "sheet", default, skip_serializing_if = "Option::is_none")]
    pub(super) superblock: Option<PaperSuperblock>,
    pub(super) tags: Tags,
}

impl Volume {
    fn first_shape(&self) -> Shape {
        Shape {
            gib: self.gib,
            kind: self.kind.clone(),
            iops: self.iops,
            throughput: self.throughput,
        }
    }

    /// The volume's shape at `at`.
    pub(super) fn shape(&self, at: Timestamp) -> Shape {
        modifications::shape_at(self.first_shape(), &self.modifications, at)
    }

    /// The shapes that are billed until `end`, each with when it begins and ends.
    pub(super) fn billed_shapes(&self, end: Timestamp) -> Vec<(Shape, Timestamp, Timestamp)> {
        let time = (self.created, end);
        modifications::billed_shapes(self.first_shape(), &self.modifications, time)
    }

    /// The volume's attachment at `at`.
    pub(super) fn attachment(&self, at: Timestamp) -> Option<&Attachment> {
        self.attachments
            .iter()
            .rev()
            .find(|attachment| attachment.holds(at))
    }

    /// The volume's attachment at `at`, to be changed.
    pub(super) fn attachment_mut(&mut self, at: Timestamp) -> Option<&mut Attachment> {
        self.attachments
            .iter_mut()
            .rev()
            .find(|attachment| attachment.holds(at))
    }

    /// The volume's state at `at` as EC2 writes it; `None` if it does not exist then.
    pub(super) fn state(&self, at: Timestamp) -> Option<&'static str> {
        let past = |stamp: Option<Timestamp>| stamp.is_some_and(|stamp| stamp <= at);
        if at < self.created || past(self.deleted) {
            return None;
        }
        Some(if past(self.deleting) {
            "deleting"
        } else if past(self.failed) {
            "error"
        } else if self.attachment(at).is_some() {
            "in-use"
        } else if at < self.available {
            "creating"
        } else {
            "available"
        })
    }
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) volume: String,
    pub(super) gib: u32,
    pub(super) description: String,
    pub(super) encrypted: bool,
    /// The ARN of its key, if that is one of the account's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    pub(super) started: Timestamp,
    pub(super) completed: Timestamp,
    pub(super) failed: Option<Timestamp>,
    pub(super) deleting: Option<Timestamp>,
    pub(super) deleted: Option<Timestamp>,
    /// The size of its blocks, in bytes; none in records that are older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) full_size: Option<u64>,
    /// [`Volume::superblock`] when it was taken.
    #[serde(rename = "sheet", default, skip_serializing_if = "Option::is_none")]
    pub(super) superblock: Option<PaperSuperblock>,
    /// [`Volume::origin`] of its volume.
    pub(super) origin: Option<String>,
    pub(super) tags: Tags,
}

impl Snapshot {
    /// The snapshot's state at `at` as EC2 writes it; `None` if it does not exist then. A deleted
    /// one lingers in the state it had.
    pub(super) fn state(&self, at: Timestamp) -> Option<&'static str> {
        let past = |stamp: Option<Timestamp>| stamp.is_some_and(|stamp| stamp <= at);
        if at < self.started || past(self.deleted) {
            return None;
        }
        Some(if past(self.failed) {
            "error"
        } else if at < self.completed {
            "pending"
        } else {
            "completed"
        })
    }
}

/// Tags with their history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tags(Vec<TagEdit>);

/// A change of one tag; no value is its deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TagEdit {
    at: Timestamp,
    key: String,
    value: Option<String>,
}

impl Tags {
    /// The tags given at creation.
    pub(super) fn new(at: Timestamp, tags: &BTreeMap<String, String>) -> Self {
        let mut new = Self::default();
        for (key, value) in tags {
            new.set(at, key, Some(value));
        }
        new
    }

    /// Sets or (with no value) removes one.
    pub(super) fn set(&mut self, at: Timestamp, key: &str, value: Option<&str>) {
        self.0.push(TagEdit {
            at,
            key: key.to_owned(),
            value: value.map(str::to_owned),
        });
    }

    /// The tags as of `at`.
    pub(super) fn at(&self, at: Timestamp) -> BTreeMap<&str, &str> {
        let mut tags = BTreeMap::new();
        for edit in self.0.iter().filter(|edit| edit.at <= at) {
            match &edit.value {
                Some(value) => tags.insert(edit.key.as_str(), value.as_str()),
                None => tags.remove(edit.key.as_str()),
            };
        }
        tags
    }

    /// Removes the edits that no answer about `horizon` or later needs.
    pub(super) fn forget_before(&mut self, horizon: Timestamp) {
        let edits = std::mem::take(&mut self.0);
        self.0 = edits
            .iter()
            .enumerate()
            .filter(|(index, edit)| {
                let superseded = edits[index + 1..]
                    .iter()
                    .any(|later| later.key == edit.key && later.at <= horizon);
                !superseded && (edit.value.is_some() || edit.at > horizon)
            })
            .map(|(_, edit)| edit.clone())
            .collect();
    }
}

#[cfg(test)]
mod tests;
