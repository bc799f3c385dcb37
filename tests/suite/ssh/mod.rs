//! SSH against a real sshd on a loopback address of its own.

mod command;
mod forward;
mod sshd;

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
