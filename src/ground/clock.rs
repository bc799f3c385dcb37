//! Time, as an argument.
//!
//! Code that decides by time gets a [`Clock`]: the wall clock for AWS's timestamps, the boot-time
//! clock (it counts while the laptop sleeps) for the age of an observation. Tests run the same code
//! on tokio's pausable clock, on which a quarter of an hour takes no time.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The clock that counts while the machine sleeps. Apple's monotonic one does (`clock_gettime(3)`
/// of macOS); Linux's does not.
#[cfg(target_vendor = "apple")]
const BOOT: ClockId = ClockId::Monotonic;
#[cfg(not(target_vendor = "apple"))]
const BOOT: ClockId = ClockId::Boottime;

/// A source of time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Tokio {
        epoch: Timestamp,
        start: tokio::time::Instant,
    },
}

/// A moment on the boot-time clock, which never goes back and counts while the machine sleeps. It
/// is the same for every process of this computer until it restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootTime(Duration);

impl Clock {
    /// The machine's own clocks.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that reads `epoch` now and moves with tokio's clock, paused or not.
    #[must_use]
    pub fn tokio(epoch: Timestamp) -> Self {
        Self(Source::Tokio {
            epoch,
            start: tokio::time::Instant::now(),
        })
    }

    /// The wall clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Tokio { epoch, start } => *epoch + start.elapsed(),
        }
    }

    /// The boot-time clock (`CLOCK_BOOTTIME`, see `clock_gettime(2)`; Apple's `CLOCK_MONOTONIC`).
    #[must_use]
    pub fn boot(&self) -> BootTime {
        match &self.0 {
            Source::System => {
                let time = clock_gettime(BOOT);
                BootTime(Duration::new(
                    u64::try_from(time.tv_sec).unwrap_or(0),
                    u32::try_from(time.tv_nsec).unwrap_or(0),
                ))
            }
            Source::Tokio { start, .. } => BootTime(start.elapsed()),
        }
    }
}

impl BootTime {
    /// The time since `earlier`; zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time since this computer's start, for other processes to read.
    #[must_use]
    pub fn since_start(self) -> Duration {
        self.0
    }

    /// The moment `then` on this clock, which shows `self` when the wall clock shows `wall`. A
    /// moment before this computer's start becomes its start.
    #[must_use]
    pub fn on_this_clock(self, wall: Timestamp, then: Timestamp) -> Self {
        let ahead = then.duration_since(wall);
        Self(if ahead.is_negative() {
            self.0.saturating_sub(ahead.unsigned_abs())
        } else {
            self.0 + ahead.unsigned_abs()
        })
    }
}

impl std::ops::Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0 + span)
    }
}
