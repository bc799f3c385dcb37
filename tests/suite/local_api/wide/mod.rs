//! Files of variants alone, which `shell/test.sh --all` runs.

mod real_delays;
