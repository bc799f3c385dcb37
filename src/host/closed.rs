//! The report of a close, read from the facts of `close`.

use std::time::Duration;

use super::facts::{Facts, ScriptError};
use super::frozen::Frozen;
use super::room::Room;
use super::shares::Share;
use crate::ids::VolumeId;

/// How a close ended. Either way the host may be terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The drive is unmounted.
    Unmounted,
    /// No volume has been mounted since the host's system started. If one was before, it may be
    /// left as by a power cut.
    NotMounted,
    /// The drive could not be unmounted by its deadline: it is synced and read-only, and the host
    /// is powering off.
    Frozen,
}

/// The report of a close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseReport {
    /// The commit of the container's own layer.
    pub committed: Committed,
    /// Why that failed, if there is a reason to name.
    pub why: Option<String>,
    /// Whether the drive is unmounted. If not, the machine is powering off.
    pub unmounted: bool,
    /// The volume that was unmounted; none if none was mounted since the host's system started.
    /// What was mounted before a reboot may be left as by a power cut.
    pub whole: Option<VolumeId>,
    /// The drive's free room then, if known.
    pub room: Option<Room>,
    /// Whether the drive, still mounted, was synced and is read-only.
    pub frozen: bool,
    /// The commands that were to be frozen.
    pub commands: Vec<Frozen>,
    /// The shares that did not answer.
    pub silent: Vec<Share>,
    /// The steps and how long they took, in order.
    pub timings: Vec<(String, Duration)>,
}

/// The commit of the container's own layer at closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The layer is an image now.
    Yes,
    /// The layer has nothing newer than the last commit.
    Unchanged,
    /// The layer could not be committed in time. Nothing is lost: the layer itself is on the drive.
    Failed,
    /// There was no container, or the drive was closed before.
    Nothing,
}

impl CloseReport {
    /// How the close ended; none if the drive could be neither unmounted nor made read-only.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        match (self.unmounted, self.frozen) {
            (true, _) if self.whole.is_some() => Some(Closed::Unmounted),
            (true, _) => Some(Closed::NotMounted),
            (false, true) => Some(Closed::Frozen),
            (false, false) => None,
        }
    }

    pub(super) fn read(facts: &Facts) -> Result<Self, ScriptError> {
        Ok(Self {
            committed: match facts.require::<String>("committed")?.as_str() {
                "yes" => Committed::Yes,
                "unchanged" => Committed::Unchanged,
                "failed" => Committed::Failed,
                "nothing" => Committed::Nothing,
                _ => return Err(facts.garbled("committed")),
            },
            why: facts.get("why").map(str::to_owned),
            unmounted: match facts.require::<String>("unmounted")?.as_str() {
                "yes" => true,
                "no" => false,
                _ => return Err(facts.garbled("unmounted")),
            },
            whole: facts.optional("whole")?,
            room: Room::read(facts),
            frozen: facts.yes("frozen"),
            commands: Frozen::all(facts),
            silent: facts
                .all("silent")
                .filter_map(|it| it.parse().ok())
                .collect(),
            timings: facts.timings(),
        })
    }
}
