//! Files of variants alone, which `shell/test.sh --all` runs.

mod outputs;
mod pruned;
mod ranges;
mod roots;
