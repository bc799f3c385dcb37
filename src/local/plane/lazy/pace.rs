//! When the blocks of a volume are there: the model, without a clock or a disk.
//!
//! All times are spans since the volume was made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::super::blocks::BLOCK;
use super::source::{Lazy, Speed};

/// The most bytes of one operation of an SSD volume, in EBS's count.
const OPERATION: u64 = 256 << 10;

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There.
    Warm,
    /// Nobody asked for it; it is so many blocks after the snapshot's first that has data.
    Cold { rank: u32 },
    /// There from this moment on.
    Coming(Duration),
}

/// When the blocks of one volume are there.
#[derive(Debug)]
pub(super) struct Pace {
    lazy: Lazy,
    /// MiB a second at which all come in order.
    rate: Option<u32>,
    blocks: Vec<State>,
    /// When the last of those that come at once is there, for each place among them.
    places: BinaryHeap<Reverse<Duration>>,
    /// When what has been asked for has come, by the throughput of all together.
    passed: Duration,
    speed: Speed,
    /// Until when the volume is busy, by its own speed.
    busy: Duration,
}

impl Pace {
    /// For blocks of which those that the snapshot has are cold or not.
    pub(super) fn new(
        lazy: Lazy,
        rate: Option<u32>,
        speed: Speed,
        blocks: &[Option<bool>],
    ) -> Self {
        let mut ranks = 0..;
        let blocks = blocks.iter().map(|cold| {
            let rank = cold.and_then(|_| ranks.next());
            match (cold, rank) {
                (Some(true), Some(rank)) => State::Cold { rank },
                _ => State::Warm,
            }
        });
        let places = (0..lazy.at_once.max(1)).map(|_| Reverse(Duration::ZERO));
        Self {
            blocks: blocks.collect(),
            places: places.collect(),
            passed: Duration::ZERO,
            lazy,
            rate,
            speed,
            busy: Duration::ZERO,
        }
    }

    /// Asks for a block at `now`. Returns when it is there, and whether this was the first to ask.
    pub(super) fn ask(&mut self, block: usize, now: Duration) -> (Duration, bool) {
        let Some(state) = self.blocks.get(block).copied() else {
            return (now, false);
        };
        match state {
            State::Warm => (now, false),
            State::Coming(due) if due <= now => {
                self.blocks[block] = State::Warm;
                (now, false)
            }
            State::Coming(due) => (due, false),
            State::Cold { rank } => {
                let due = self.fetch(block, rank, now);
                self.blocks[block] = State::Coming(due);
                (due, true)
            }
        }
    }

    /// Moves so many bytes at `now`. Returns when the volume has done so, if all of them are there.
    pub(super) fn move_bytes(&mut self, bytes: u64, now: Duration) -> Duration {
        let Speed { throughput, iops } = self.speed;
        let moved = time_for(bytes, throughput);
        let operations = bytes.div_ceil(OPERATION).max(1);
        let done = Duration::from_nanos(operations * 1_000_000_000 / u64::from(iops.max(1)));
        self.busy = self.busy.max(now) + moved.max(done);
        self.busy
    }

    /// Has a block be there that was written whole. Returns whether it was cold.
    pub(super) fn overwrite(&mut self, block: usize) -> bool {
        let Some(state) = self.blocks.get_mut(block) else {
            return false;
        };
        let was_cold = matches!(state, State::Cold { .. });
        *state = State::Warm;
        was_cold
    }

    fn fetch(&mut self, block: usize, rank: u32, now: Duration) -> Duration {
        // In order and without a pause, if that was bought.
        let filled = self.rate.map(|rate| span_of(rank + 1, rate));
        if filled.is_some_and(|filled| filled <= now) {
            return now;
        }
        let Reverse(free) = self.places.pop().unwrap_or_default();
        let due = free.max(now) + self.latency(block);
        self.passed = self.passed.max(now) + span_of(1, self.lazy.mib_a_second);
        let due = due.max(self.passed);
        let due = filled.map_or(due, |filled| filled.min(due));
        self.places.push(Reverse(due));
        due
    }

    /// How long a block takes: one in a hundred as long as 99 do at most; the others lie evenly around the median.
    fn latency(&self, block: usize) -> Duration {
        // Fibonacci hashing: neighbours are far apart.
        let hash = (block as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let percent = u32::try_from(hash % 100).unwrap_or_default();
        let Lazy {
            median_ms, p99_ms, ..
        } = self.lazy;
        let ms = match percent {
            99 => u64::from(p99_ms),
            percent => u64::from(median_ms) * u64::from(50 + percent) / 100,
        };
        Duration::from_millis(ms)
    }
}

/// How long so many blocks take at so many MiB a second.
fn span_of(blocks: u32, mib_a_second: u32) -> Duration {
    time_for(u64::from(blocks) * BLOCK as u64, mib_a_second)
}

fn time_for(bytes: u64, mib_a_second: u32) -> Duration {
    let rate = u64::from(mib_a_second.max(1)) << 20;
    let rest = u128::from(bytes % rate) * 1_000_000_000 / u128::from(rate);
    Duration::from_secs(bytes / rate)
        + Duration::from_nanos(u64::try_from(rest).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lazy() -> Lazy {
        Lazy {
            lazy: true,
            median_ms: 30,
            p99_ms: 150,
            at_once: 2,
            mib_a_second: 100,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_block_is_late_once() {
        let mut pace = Pace::new(
            lazy(),
            None,
            Speed::default(),
            &[Some(true), Some(false), None],
        );
        let (due, first) = pace.ask(0, ms(10));
        assert!(first && due >= ms(25), "{due:?}");
        assert_eq!(pace.ask(0, ms(11)), (due, false));
        assert_eq!(pace.ask(0, due), (due, false));
        for warm in [1, 2, 3] {
            assert_eq!(pace.ask(warm, ms(10)), (ms(10), false));
        }
    }

    #[test]
    fn as_many_come_at_once_as_is_said_and_no_faster_than_all_together() {
        let cold = [Some(true); 4];
        let unbound = Lazy {
            mib_a_second: 1 << 20,
            ..lazy()
        };
        let mut pace = Pace::new(unbound, None, Speed::default(), &cold);
        let dues: Vec<Duration> = (0..4).map(|block| pace.ask(block, ms(0)).0).collect();
        let mut first = [dues[0], dues[1]];
        first.sort();
        assert!(dues[2] > first[0] && dues[3] > first[1], "{dues:?}");

        let narrow = Lazy {
            mib_a_second: 1,
            ..lazy()
        };
        let mut pace = Pace::new(narrow, None, Speed::default(), &cold);
        let dues: Vec<Duration> = (0..4).map(|block| pace.ask(block, ms(0)).0).collect();
        assert_eq!(dues, [500, 1000, 1500, 2000].map(ms));
    }

    #[test]
    fn half_are_there_in_the_median_and_one_in_a_hundred_at_the_latest() {
        let wide = Lazy {
            at_once: 10_000,
            mib_a_second: 1 << 30,
            ..lazy()
        };
        let cold = vec![Some(true); 10_000];
        let mut pace = Pace::new(wide, None, Speed::default(), &cold);
        let mut spans: Vec<Duration> = (0..10_000).map(|block| pace.ask(block, ms(0)).0).collect();
        spans.sort();
        assert!(
            (ms(28)..=ms(32)).contains(&spans[5000]),
            "{:?}",
            spans[5000]
        );
        assert!(spans[9_850] < ms(45), "{:?}", spans[9_850]);
        assert_eq!(spans[9_999], ms(150));
    }

    #[test]
    fn a_volume_does_no_more_than_its_own_speed() {
        let mut pace = Pace::new(lazy(), None, Speed::default(), &[]);
        assert_eq!(pace.move_bytes(125 << 20, ms(0)), ms(1000));
        assert_eq!(pace.move_bytes(25 << 20, ms(500)), ms(1200));
        // Small ones by their number.
        let mut last = ms(2000);
        for _ in 0..3000 {
            last = pace.move_bytes(4096, ms(2000));
        }
        assert!((ms(2990)..=ms(3000)).contains(&last), "{last:?}");
    }

    #[test]
    fn a_bought_rate_fills_it_in_order_and_a_whole_write_at_once() {
        // At 100 MiB a second, a block is there each 5 ms.
        let blocks = [Some(true), None, Some(true), Some(true), Some(true)];
        let mut pace = Pace::new(lazy(), Some(100), Speed::default(), &blocks);
        assert_eq!(pace.ask(0, ms(5)), (ms(5), true));
        assert_eq!(pace.ask(2, ms(8)), (ms(10), true));
        // Also where there is much of it: 48.8 GiB.
        let large = vec![Some(true); 100_000];
        let mut pace_of_large = Pace::new(lazy(), Some(100), Speed::default(), &large);
        let (due, _) = pace_of_large.ask(99_999, ms(499_999));
        assert_eq!(due, ms(500_000));
        assert!(pace.overwrite(4));
        assert!(!pace.overwrite(4));
        assert_eq!(pace.ask(4, ms(9)), (ms(9), false));
    }
}
