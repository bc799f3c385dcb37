//! The one table of delays, and the values derived from it.
//!
//! Two presets: *fast*, so that a whole life cycle takes as long as its parts need, and *aws*, with
//! times measured on EC2 and EBS. No call sleeps for these (except for `call`): it records the
//! moments at which its effects are due, and reads compare them with the clock. At such a moment a
//! real machine's supervisor acts (boots it, gives it a device), so that it can be used no earlier
//! than on EC2.

use std::time::Duration;

use serde::Deserialize;

/// A preset of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Some tens of milliseconds each.
    #[default]
    Fast,
    /// As measured on EC2 and EBS.
    Aws,
}

/// The length of each transition, and the staleness of the answers of Describe calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    /// Instance `pending` → `running`. A machine boots when this is over, or when it is ready, if
    /// that is later. Until then it has an address and metadata, and does not answer.
    pub running: Duration,
    /// How long the status checks of an instance are `initializing` after its boot, or its failed
    /// boot.
    pub checks: Duration,
    /// Instance `shutting-down` → `terminated`, and `stopping` → `stopped`, at the least.
    pub terminated: Duration,
    /// How long a machine may take to shut down in order before it is ended by force.
    pub shutdown_grace: Duration,
    /// How long terminated instances stay listed.
    pub listed: Duration,
    /// Volume `creating` → `available`.
    pub available: Duration,
    /// Attachment `attaching` → `attached`. The machine has the device when this is over; the
    /// volume is taken from the call on.
    pub attached: Duration,
    /// Attachment `detaching` → gone.
    pub detached: Duration,
    /// Modification of a volume `modifying` → `optimizing`: it has its new size then.
    pub modifying: Duration,
    /// Modification `optimizing` → `completed`.
    pub optimizing: Duration,
    /// How long a deleted volume or snapshot lingers.
    pub deleted: Duration,
    /// Snapshot `pending` → `completed`.
    pub completed: Duration,
    /// The least time between two snapshots of one volume (EBS: 15 s).
    pub between_snapshots: Duration,
    /// File system `creating` → `available`.
    pub share: Duration,
    /// Mount target `creating` → `available`, and `deleting` → gone.
    pub target: Duration,
    /// How stale the answer of a Describe call without ids is.
    pub stale_lists: Duration,
    /// How stale the answer of a Describe call by id is.
    pub stale_reads: Duration,
    /// The delay of every answer after its call was carried out.
    pub call: Duration,
    settled: Duration,
}

impl Delays {
    /// The table of `preset`.
    #[must_use]
    pub const fn new(preset: Preset) -> Self {
        match preset {
            Preset::Fast => Self {
                running: Duration::from_millis(40),
                checks: Duration::from_millis(200),
                terminated: Duration::from_millis(40),
                shutdown_grace: Duration::from_secs(10),
                listed: Duration::from_hours(1),
                available: Duration::from_millis(20),
                attached: Duration::from_millis(20),
                detached: Duration::from_millis(20),
                modifying: Duration::from_millis(20),
                optimizing: Duration::from_millis(60),
                deleted: Duration::from_millis(20),
                completed: Duration::from_millis(60),
                between_snapshots: Duration::from_millis(15),
                share: Duration::from_millis(20),
                target: Duration::from_millis(60),
                stale_lists: Duration::ZERO,
                stale_reads: Duration::ZERO,
                call: Duration::ZERO,
                settled: Duration::from_millis(50),
            },
            Preset::Aws => Self {
                running: Duration::from_secs(15),
                checks: Duration::from_mins(2),
                terminated: Duration::from_secs(40),
                shutdown_grace: Duration::from_mins(2),
                listed: Duration::from_hours(1),
                available: Duration::from_secs(5),
                attached: Duration::from_secs(3),
                detached: Duration::from_secs(3),
                modifying: Duration::from_secs(5),
                optimizing: Duration::from_mins(30),
                deleted: Duration::from_secs(3),
                completed: Duration::from_secs(46),
                between_snapshots: Duration::from_secs(15),
                share: Duration::from_secs(5),
                target: Duration::from_secs(90),
                stale_lists: Duration::from_secs(3),
                stale_reads: Duration::from_secs(1),
                call: Duration::ZERO,
                settled: Duration::from_secs(15),
            },
        }
    }

    /// How long after its own create calls a client finds all earlier ones of others in lists: 15 s
    /// on AWS, here never less than the lists' staleness.
    #[must_use]
    pub fn settle(&self) -> Duration {
        self.settled.max(self.stale_lists + self.stale_lists / 4)
    }

    /// How stale any answer may be.
    pub(super) fn stalest(&self) -> Duration {
        self.stale_lists.max(self.stale_reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_never_takes_less_than_the_lists_lag() {
        let mut delays = Delays::new(Preset::Fast);
        assert_eq!(delays.settle(), Duration::from_millis(50));
        delays.stale_lists = Duration::from_secs(8);
        assert_eq!(delays.settle(), Duration::from_secs(10));
        assert_eq!(Delays::new(Preset::Aws).settle(), Duration::from_secs(15));
    }
}
