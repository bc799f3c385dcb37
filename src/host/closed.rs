//! The result of a close, read from the facts of `close`.

use std::time::Duration;

use super::facts::{Facts, HostError};
use super::room::Room;

/// The result of a close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The commit of the container's own layer.
    pub committed: Committed,
    /// Whether the drive is unmounted. If not, the machine is powering off.
    pub unmounted: bool,
    /// The volume that was unmounted; none if none was mounted since the host's system started.
    /// What was mounted before a reboot may be left as by a power cut.
    pub whole: Option<String>,
    /// The drive's free room then, if known.
    pub room: Option<Room>,
    /// Whether the drive, still mounted, was synced and is read-only.
    pub frozen: bool,
    /// The steps and how long they took, in order.
    pub timings: Vec<(String, Duration)>,
}

/// The commit of the container's own layer at closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It is an image now.
    Yes,
    /// Nothing in it is newer than the last commit.
    Unchanged,
    /// It could not be committed in time. Nothing is lost: the layer itself is on the drive.
    Failed,
    /// There was no container, or the drive was closed before.
    Nothing,
}

impl Closed {
    pub(super) fn read(facts: &Facts) -> Result<Self, HostError> {
        Ok(Self {
            committed: match facts.require::<String>("committed")?.as_str() {
                "yes" => Committed::Yes,
                "unchanged" => Committed::Unchanged,
                "failed" => Committed::Failed,
                "nothing" => Committed::Nothing,
                _ => return Err(facts.garbled("committed")),
            },
            unmounted: match facts.require::<String>("unmounted")?.as_str() {
                "yes" => true,
                "no" => false,
                _ => return Err(facts.garbled("unmounted")),
            },
            whole: facts.get("whole").map(str::to_owned),
            room: Room::read(facts),
            frozen: facts.yes("frozen"),
            timings: facts.timings(),
        })
    }
}
