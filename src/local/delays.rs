//! How long things take: the one table of delays, and what follows from it.
//!
//! Two presets: *fast*, so that a whole life cycle takes as long as its parts need, and *aws*,
//! with the times that EC2 and EBS were seen to take. No call sleeps for these (but for how long
//! answers are on their way): it records the moments at which its effects are due, and reading
//! compares them with the clock. What happens to a real machine at such a moment (it boots, it gets
//! a device) its supervisor does, so that it can be used no earlier than on EC2.

use std::time::Duration;

use serde::Deserialize;

/// A preset of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Some tens of milliseconds each.
    #[default]
    Fast,
    /// As EC2 and EBS were seen to behave.
    Aws,
}

/// How long each transition takes, and how far behind the answers of Describe calls are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    /// Instance `pending` → `running`. A machine boots when this is over, or as soon as it is ready
    /// where that is later. Until then it has an address and metadata, and does not answer.
    pub running: Duration,
    /// How long the status checks of an instance are `initializing` after it has booted, or was to.
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
    /// volume is its own from the call on.
    pub attached: Duration,
    /// Attachment `detaching` → gone.
    pub detached: Duration,
    /// How long a deleted volume or snapshot lingers.
    pub deleted: Duration,
    /// Snapshot `pending` → `completed`.
    pub completed: Duration,
    /// How far apart two snapshots of one volume must be taken (EBS: 15 s).
    pub between_snapshots: Duration,
    /// How stale the answer of a Describe call without ids is.
    pub stale_lists: Duration,
    /// How stale the answer of a Describe call by id is.
    pub stale_reads: Duration,
    /// How long every answer is on its way, after its call was carried out.
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
                deleted: Duration::from_millis(20),
                completed: Duration::from_millis(60),
                between_snapshots: Duration::from_millis(15),
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
                deleted: Duration::from_secs(3),
                completed: Duration::from_secs(46),
                between_snapshots: Duration::from_secs(15),
                stale_lists: Duration::from_secs(3),
                stale_reads: Duration::from_secs(1),
                call: Duration::ZERO,
                settled: Duration::from_secs(15),
            },
        }
    }

    /// How long a client must wait after its own create calls until lists show all that others
    /// created before: 15 s on AWS, here never less than the lists' staleness.
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
