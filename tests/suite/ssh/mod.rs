//! SSH against a real sshd on a loopback address of its own.

use std::time::{Duration, Instant};

mod client;
mod command;
mod forward;
mod link;
mod piped;
mod pty;
mod sshd;
mod terminal;

/// How long anything that should happen may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Polls until `reached`, and fails with `what` when it never is.
fn eventually(what: &str, reached: impl FnMut() -> bool) {
    eventually_within(DEADLINE, what, reached);
}

fn eventually_within(limit: Duration, what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !reached() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
