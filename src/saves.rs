//! Verbs on what is saved of a drive: its snapshots, and their tags.
//!
//! No instance is launched or asked here, and no key is read. What may be deleted is decided by the
//! plan and its proofs.

mod adopt;
mod copied;
mod delete;
mod fork;
mod history;
mod leaving;
mod no_hosts;
mod rename;

pub(crate) use adopt::adopt;
pub(crate) use delete::{Deletion, delete};
pub(crate) use fork::{Found, find, find_now, fork, fork_once};
pub(crate) use history::{Saved, history, note};
pub(crate) use rename::rename;
