//! The pace of a sweep: which cases are taken, in which order, how many at once, and when it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};

/// The pace of one sweep.
pub struct Pace {
    /// Whether all cases are taken.
    long: bool,
    bound: usize,
    jobs: usize,
    random: u64,
    stopped: Arc<AtomicBool>,
}

impl Pace {
    /// The pace that the environment sets; prints the seed. By default `bound` cases are taken,
    /// `jobs` of them at once.
    pub fn new(bound: usize, jobs: usize) -> anyhow::Result<Self> {
        let long = std::env::var_os("XDRIVE_LONG").is_some_and(|value| value != "0");
        let seed = match std::env::var("XDRIVE_SWEEP_SEED") {
            Ok(value) => value
                .parse()
                .context("XDRIVE_SWEEP_SEED is a whole number")?,
            Err(_) => getrandom::u32()?.into(),
        };
        println!("XDRIVE_SWEEP_SEED={seed}");
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ] {
            signal_hook::flag::register(signal, Arc::clone(&stopped))?;
        }
        Ok(Self {
            long,
            bound,
            jobs,
            random: seed,
            stopped,
        })
    }

    pub fn is_long(&self) -> bool {
        self.long
    }

    /// How many cases may be under way at once.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// How many of `all` cases are taken.
    pub fn count(&self, all: usize) -> usize {
        if self.long { all } else { all.min(self.bound) }
    }

    /// An error once a signal has asked for the end.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.stopped.load(Ordering::Relaxed), "stopped");
        Ok(())
    }

    /// The next number of the seed's sequence (`SplitMix64`), below `limit`.
    pub fn random(&mut self, limit: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % limit.max(1) as u64).unwrap_or(0)
    }

    /// Chooses from `all`: the whole list in order, or as many as are taken, others every time.
    pub fn choose<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        if !self.long {
            for last in (1..all.len()).rev() {
                let other = self.random(last + 1);
                all.swap(last, other);
            }
            all.truncate(self.bound);
        }
        all
    }
}
