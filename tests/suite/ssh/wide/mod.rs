//! Files of variants alone, which `shell/test.sh --all` runs.

mod compared;
mod resized;
mod stalled;
