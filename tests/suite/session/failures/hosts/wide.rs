//! Variants of `hosts`, which `shell/test.sh --all` runs.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::session::failures::{Account, is_xdrive};

#[test]
#[ignore = "needs root, and a machine tree"]
fn an_instance_that_boots_for_longer_than_silence_is_borne_is_waited_for_and_used() {
    let name =
        test_name!(an_instance_that_boots_for_longer_than_silence_is_borne_is_waited_for_and_used);
    if is_xdrive() {
        return;
    }
    // With hurried timing a host may be silent for 4 s.
    let account = Account::with_machines(
        "checks-take-ms = 60000\n[boots]\n\"m5.large\" = { seconds = 12 }\n",
    );
    let ended = account.hurried(name, &["--type", "m5.large"]);
    ended
        .is(0)
        .reports("EC2's status checks of demo's instance (i-")
        .reports(": system initializing, instance initializing\n  it boots still, ")
        .reports(" is up\n")
        .reports("demo is saved: ");
    let calls = account.proxy.calls();
    let launched = calls.iter().filter(|call| *call == "RunInstances");
    assert_eq!(launched.count(), 1, "{ended:?}");
    let asked = calls
        .iter()
        .filter(|call| *call == "DescribeInstanceStatus");
    assert!(asked.count() >= 1, "{calls:?}");
}

#[test]
#[ignore = "needs root (port 22)"]
fn a_port_that_never_answers_is_given_up_in_time_with_the_likely_reasons() {
    let name = test_name!(a_port_that_never_answers_is_given_up_in_time_with_the_likely_reasons);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    // A port that drops connection attempts, as without an ingress rule: its backlog is full.
    let silent = format!("127.66.254.{}", std::process::id() % 250 + 1);
    let listening = TcpListener::bind((silent.as_str(), 22)).unwrap();
    rustix::net::listen(&listening, 0).unwrap();
    let _waiting = TcpStream::connect((silent.as_str(), 22)).unwrap();
    account.answers_at(&silent);
    let began = Instant::now();
    let ended = account.hurried(name, &[]);
    ended
        .is(69)
        .reports(&format!(
            "cannot be logged in to: cannot reach {silent}:22: timed out\n  if it stays so, \
             something on the way may keep port 22 shut"
        ))
        .reports("(--cidr says who is let in), the subnet's network ACL")
        .reports("--proxy-command goes another way");
    assert!(ended.error().ends_with(&format!(
        "never answered: cannot reach {silent}:22: timed out"
    )));
    // Two of them, some seconds each.
    assert!(
        began.elapsed() < Duration::from_mins(2),
        "{:?}",
        began.elapsed()
    );
    account.is_bare();
}
