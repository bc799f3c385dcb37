//! Files of variants alone, which `shell/test.sh --all` runs.

mod addresses;
mod days;
mod doctor;
mod experiments;
mod ipv6;
mod providers;
mod selftest;
