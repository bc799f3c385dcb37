//! The drive: names, tags, generations, what was observed, and what to do about it.
//!
//! ```text
//! reconcile ── sweep ──▶ Observed ── plan (pure) ──▶ Next ── act ──▶ EC2, the host ──▶ again
//! ```
//!
//! Crash recovery, a second laptop, somebody at the console who deleted something, and the happy
//! path are all the same code: look, decide, act, look again. The record is in AWS's tags; this
//! process remembers only what makes its own look sharper (what it made, what it was answered).
//!
//! What this module must never do: delete a volume or terminate an instance without a [`proof`],
//! raise a generation before the lists are settled, take anything in the protocol back, or drop a
//! future in the middle of a call that changes the cloud.

pub mod event;
pub mod hosts;
pub mod kept;
pub mod name;
pub mod observed;
pub mod overlay;
pub mod plan;
pub mod pools;
pub mod proof;
pub mod quotas;
pub mod reconcile;
pub mod stuck;
pub mod subnets;
pub mod superblock;
pub mod tags;
pub mod timing;

pub use event::Event;
pub use hosts::{
    Client, Closed, Contact, HostError, HostView, Hosts, MountOrder, Mounted, NoAnswer, Prepared,
    RECORD_LIFE, Route, lease_left,
};
pub use name::{DriveName, Generation, InvalidName, SessionId};
pub use plan::{Goal, Source};
pub use reconcile::{Outcome, Reconciler, Wanted};
pub use stuck::{Left, Stuck};
pub use subnets::Subnets;
pub use timing::Timing;
pub use uuid::Uuid;
