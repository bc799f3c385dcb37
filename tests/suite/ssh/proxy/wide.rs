//! Variants of `proxy`, which `shell/test.sh --all` runs.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use xdrive::ssh::{Ssh, SshError};

use super::{eventually, processes, through};
use harness::sshd::Sshd;

/// The longest time for a command that never answers: the limit of a login through one, and as much
/// for a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

async fn refused(sshd: &Sshd, command: &str) -> String {
    let target = through(sshd, command);
    match Ssh::connect(&target, sshd.user_key.private()).await {
        Err(SshError::Unreachable(_, why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_command_that_ends_is_reported_with_its_status_and_the_end_of_its_output() {
    let sshd = Sshd::start();
    let why = refused(&sshd, "echo no such target >&2; exit 3").await;
    assert_eq!(
        why,
        "the proxy command ended with exit status 3: no such target"
    );
    let why = refused(&sshd, "no-such-program %h").await;
    assert!(why.contains("ended with exit status 127: "), "{why}");
    assert!(why.contains("no-such-program"), "{why}");
    let why = refused(&sshd, "kill -KILL $$").await;
    assert!(why.ends_with("signal 9"), "{why}");
    // Output that is not an SSH server's is refused, even if the command goes on.
    let why = refused(&sshd, "echo hello; exec sleep 1000").await;
    assert!(
        why.contains("the proxy command does not come through"),
        "{why}"
    );
    // The error has the end of its standard error, and long output blocks nothing.
    let why = refused(
        &sshd,
        "yes waiting | head -c 1000000 >&2; echo over >&2; exit 1",
    )
    .await;
    assert!(why.ends_with("waiting\nover") && why.len() < 4096, "{why}");
    assert!(processes(&sshd).is_empty());
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_command_that_never_answers_is_given_up_and_ended_whatever_it_ignores() {
    let sshd = Sshd::start();
    let began = Instant::now();
    let why = refused(
        &sshd,
        "trap '' HUP TERM; echo on my way >&2; sleep 1000 & sleep 1000",
    );
    let why = why.await;
    assert!(
        why.starts_with("the proxy command does not come through: "),
        "{why}"
    );
    assert!(why.ends_with(": on my way"), "{why}");
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    eventually("it is gone", || processes(&sshd).is_empty()).await;

    // The caller stops waiting.
    let target = through(&sshd, "trap '' HUP; sleep 1000");
    let connecting = Ssh::connect(&target, sshd.user_key.private());
    assert!(
        timeout(Duration::from_millis(500), connecting)
            .await
            .is_err()
    );
    eventually("it is gone too", || processes(&sshd).is_empty()).await;
}
