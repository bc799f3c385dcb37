//! The data plane, real: instances that boot, disks that are plugged in, and nothing left.

mod blocks;
mod delays;
mod disks;
mod instances;
mod interrupted;
mod missing;
mod reboot;
mod root;
mod setup;
mod site;
