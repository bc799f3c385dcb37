//! The host: SSH to it, the scripts that run on it, the shell and the forwards.

pub mod boot;
pub mod container;
pub mod facts;
pub mod quote;
pub mod scripts;
pub mod ssh;
