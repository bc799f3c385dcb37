//! What tests of several parts share.

use std::time::{Duration, Instant};

mod leaks;
mod pty;

pub(crate) use leaks::leaks;
pub(crate) use pty::Pty;

/// How long anything that should happen at once may take on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Polls until `reached`, and fails with `what` when it never is.
pub(crate) fn eventually_within(
    limit: Duration,
    what: impl Fn() -> String,
    mut reached: impl FnMut() -> bool,
) {
    let end = Instant::now() + limit;
    while !reached() {
        assert!(Instant::now() < end, "never: {}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}
