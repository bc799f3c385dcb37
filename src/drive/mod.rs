//! The drive: tags, what was observed, and what to do about it.
//!
//! ```text
//! reconcile ── sweep ──▶ Observed ── plan (pure) ──▶ Next ── act ──▶ EC2, the host ──▶ again
//! ```
//!
//! Crash recovery, a second laptop, a resource deleted in the console, and the happy path are the
//! same code: look, decide, act, look again. The record is in AWS's tags. This process keeps only
//! an [`overlay`]: what it made and what EC2 answered, while the lists do not show it yet.
//!
//! What this module must never do: delete a volume or terminate an instance without a [`proof`],
//! raise a generation before the lists are settled, undo anything that the protocol has written, or
//! drop a future in the middle of a call that changes the cloud.

mod billed;
pub mod event;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod host_error;
pub mod hosts;
pub mod kept;
pub(crate) mod mount;
pub mod observed;
pub mod overlay;
pub mod plan;
pub mod pools;
pub mod proof;
pub mod provenance;
pub mod quotas;
pub mod reconcile;
mod source;
pub mod stuck;
pub mod subnets;
pub mod superblock;
pub mod tags;
pub mod tend;
pub mod timing;
mod used;

pub use billed::Billed;
pub use event::Event;
pub use host_error::HostError;
pub use hosts::{
    Client, Contact, HostView, Hosts, NoAnswer, Prepared, RECORD_LIFE, Route, lease_left,
};
pub use plan::Goal;
pub use reconcile::{Outcome, Reconciler, Wanted};
pub use source::{CopyOrder, CopySource, Source};
pub use stuck::{Left, Stuck};
pub use subnets::Subnets;
pub use timing::Timing;
pub use used::{Ended, EndedInstance};
