//! SSH against a real sshd on a loopback address of its own.

mod client;
mod command;
mod forward;
mod link;
mod piped;
mod pty;
mod sshd;
mod terminal;

/// How long anything that should happen may take on a busy machine.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);

/// Polls until `reached`, and fails with `what` when it never is.
fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + DEADLINE;
    while !reached() {
        assert!(std::time::Instant::now() < end, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
