//! Files of variants alone, which `shell/test.sh --all` runs.

mod agent;
mod gpus;
mod jupyter;
mod kept;
mod leaving;
mod mounts;
mod network;
mod pulls;
mod reboot;
