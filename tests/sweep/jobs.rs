//! Points side by side: every worker has its own site, so that none sees what another leaves.
//!
//! Points are begun in the seed's order, however many workers there are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::anyhow;

use harness::pace::Pace;

/// Takes every one of `points` once, by as many workers as the pace has jobs; returns how many were
/// taken. A worker begins with the result of `begin`; `take` gets that, the point's place in the
/// order, from 1, and the point. An error ends the sweep, once the running points have ended;
/// `take` records what is wrong at one point, which is no error.
pub(crate) fn side_by_side<Point: Sync, Worker>(
    pace: &Pace,
    points: &[Point],
    begin: impl Fn() -> anyhow::Result<Worker> + Sync,
    take: impl Fn(&mut Worker, usize, &Point) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<usize> {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let work = || {
        let mut worker = begin()?;
        let mut taken = 0;
        while !is_over.load(Ordering::Relaxed) {
            pace.check()?;
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(index) else {
                break;
            };
            take(&mut worker, index + 1, point)?;
            taken += 1;
        }
        Ok(taken)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..pace.jobs().min(points.len()))
            .map(|_| {
                scope.spawn(|| {
                    let outcome = work();
                    if outcome.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    outcome
                })
            })
            .collect();
        let ends: Vec<_> = workers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        ends.into_iter()
            .map(|end| end.unwrap_or_else(|_| Err(anyhow!("a worker panicked"))))
            .sum()
    })
}
