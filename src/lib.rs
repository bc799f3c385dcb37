//! xdrive: a portable drive that moves between AWS instances.
//!
//! (The architecture in a page stands here when the parts do.)

pub mod cli;
pub mod clock;
pub mod cloud;
pub mod config;
pub mod connect;
pub mod drive;
pub mod ec2;
pub mod failure;
pub mod host;
pub mod list;
pub mod local;
pub mod report;
pub mod run;
pub mod signals;
pub mod terminal;
