//! Files of variants alone, which `shell/test.sh --all` runs.

mod blocks;
mod delays;
mod reboot;
mod root;
