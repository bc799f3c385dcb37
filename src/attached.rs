//! A host that is up, for who is attached to it: a session, or a visit.
//!
//! The monitor watches the instance and the host beside what its user does; the reconnector finds the
//! way back after a lost connection. What is done there, and how it ends, is the caller's.

mod awaited;
mod docker;
mod monitor;
mod reconnect;
pub(crate) mod runs;

pub(crate) use awaited::{Awaited, wait_for_container};
pub(crate) use docker::warn_of_docker;
pub(crate) use monitor::{Context, Monitor, Output, SharedReconciler, noticed};
pub(crate) use reconnect::{
    ANSWER, Attempt, Reconnector, connection_lost, in_words, lost, was_taken_back,
};
pub(crate) use runs::{Live, reach_live};
