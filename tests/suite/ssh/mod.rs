//! SSH against a real sshd on a loopback address of its own.

use std::time::Duration;

use harness::DEADLINE;

mod client;
mod command;
mod forward;
mod hostile;
mod ipv6;
mod link;
mod piped;
mod proxy;
mod reattach;
mod resumed;
mod terminal;
mod wide;

/// Polls until `reached`, and fails with `what` when it never is.
fn eventually(what: &str, reached: impl FnMut() -> bool) {
    eventually_within(DEADLINE, what, reached);
}

fn eventually_within(limit: Duration, what: &str, reached: impl FnMut() -> bool) {
    harness::eventually_within(limit, || what.to_owned(), reached);
}

/// A number of KiB of this process (proc(5), `status`).
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let words = line.unwrap().trim_start_matches(':').trim();
    words.trim_end_matches(" kB").parse().unwrap()
}
