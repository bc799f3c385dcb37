//! The host: SSH to it, the scripts that run on it, the shell and the forwards.

pub mod ssh;
