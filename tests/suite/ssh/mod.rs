//! SSH against a real sshd on a loopback address of its own.

use std::time::Duration;

use harness::DEADLINE;

mod client;
mod command;
mod compared;
mod forward;
mod ipv6;
mod link;
mod piped;
mod proxy;
mod reattach;
mod resized;
mod resumed;
mod terminal;

/// Polls until `reached`, and fails with `what` when it never is.
fn eventually(what: &str, reached: impl FnMut() -> bool) {
    eventually_within(DEADLINE, what, reached);
}

fn eventually_within(limit: Duration, what: &str, reached: impl FnMut() -> bool) {
    harness::eventually_within(limit, || what.to_owned(), reached);
}
