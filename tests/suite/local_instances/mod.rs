//! The data plane, real: instances that boot, disks that are plugged in, and nothing left.

mod disks;
mod instances;
mod interrupted;
mod lazy;
mod machines;
mod missing;
mod network;
mod roles;
mod setup;
mod wide;

pub(crate) use machines::{Host, Mount, succeed, until};
