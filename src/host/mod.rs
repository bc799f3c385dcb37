//! The contract with `shell/host`: the scripts that run on a host, their inputs and their outputs.
//! [`crate::ssh`] has the connection.

pub mod boot;
mod bundle;
mod client_lock;
mod closed;
pub mod closing;
mod contact;
pub mod container;
mod container_path;
pub mod criu;
mod early;
pub mod facts;
mod frozen;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod logs;
mod mount;
pub mod on_record;
pub mod places;
pub mod ports;
pub mod pull;
pub mod registry;
pub mod room;
pub mod runs;
pub mod scripts;
pub(crate) mod sftp;
pub mod shares;
pub mod tries;

pub use client_lock::{ClientLock, HostEvent, LockOrder, Role};
pub use closed::{CloseReport, Closed, Committed};
pub use contact::{HostState, Mounted, Remaining};
pub use early::{EarlyConnection, EarlySibling};
pub use frozen::{Frozen, Images};
pub use mount::{AtMount, Gpus, MountOrder, MountedDrive};
