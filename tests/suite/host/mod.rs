//! The scripts on a real host: an instance of the local EC2's data plane, booted from real user
//! data.

mod agent;
mod arriving;
mod boot;
mod clients;
mod closing;
mod commands;
mod containers;
mod gpus;
mod jupyter;
mod kept;
mod keys;
mod lease;
mod leaving;
mod machine;
mod mounts;
mod network;
mod notice;
mod pulls;
mod reboot;
mod strangers;
mod volumes;
