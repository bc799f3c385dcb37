//! The opener: a drive as every command finds it, before any host or launch.
//!
//! ```text
//! identity ∥ lists ──▶ whose is it? ──▶ Drive ──▶ a verb
//! ```
//!
//! [`Drive`] has the drive's name, its cloud and its parts, and what every verb needs: waits that a
//! signal ends, the files in a snapshot, a run of the loop with its progress, and the failure or
//! success that an outcome is. No connection to a host is opened here, and no key is read.

mod asleep;
mod console;
mod cost;
mod drive;
mod ending;
mod facts;
mod fork;
mod launch_failure;
mod lookup;
mod notified;
mod outcome;
mod progress;
mod prompt;
mod receipt;
mod room;
mod snapshot_cost;
mod wanted;

pub(crate) use asleep::{Files, Sleeping, is_among};
pub(crate) use cost::Cost;
pub(crate) use drive::{Drive, Opening};
pub(crate) use ending::{Ending, Interruption};
pub(crate) use facts::DriveFacts;
pub(crate) use fork::demand_fork;
pub(crate) use lookup::{Listing, subnet};
pub(crate) use outcome::run_failure;
pub(crate) use progress::{ProgressPrinter, describe_step, waiting};
pub(crate) use prompt::{ask, ask_name, can_ask, or_interrupted, unless_ended};
pub(crate) use receipt::Receipt;
pub(crate) use room::{Growth, free_words};
pub(crate) use wanted::no_order;
