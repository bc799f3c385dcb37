//! Variants of `joining`, which `shell/test.sh --all` runs.

use std::process::Stdio;

use rustix::process::{Signal, kill_process};

use crate::session::connection_lost::connections;
use crate::session::json::document;
use crate::session::runs::is_kept_for_hours;
use crate::session::site::{Ended, Running, Site};

/// Starts another laptop's session, whose command goes on.
fn leading(site: &Site) -> Running {
    let mut lead = site.start(&[
        "connect",
        "demo",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 1000",
    ]);
    lead.prints("begun\n");
    lead
}

/// A session with a log of its requests to hosts.
fn logged(site: &Site) -> Running {
    let mut command = site.command(&["connect", "demo", "--", "true"]);
    command.env("XDRIVE_LOG", "xdrive::host=debug");
    Running::start(command.stdin(Stdio::null()).stderr(Stdio::piped()))
}

/// How often `script` was sent to a host.
fn sent(ended: &Ended, script: &str) -> usize {
    let lines = ended.stderr.lines();
    lines
        .filter(|line| line.contains("sending") && line.contains(script))
        .count()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_guest_asks_a_host_once_on_the_way_in_and_once_on_the_way_out() {
    let site = Site::with_a_drive();
    let other = site.other_laptop();
    let lead = leading(&site);
    let guest = logged(&other).end();
    guest
        .is(0)
        .reports("joined the session of")
        .reports("left demo: ");
    for script in ["session arrive", "session hold", "session leave"] {
        assert_eq!(sent(&guest, script), 1, "{script}:\n{}", guest.stderr);
    }
    lead.signal(Signal::TERM);
    lead.end()
        .is(143)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_a_guest_leaves_has_its_host_for_as_long_as_it_may_take() {
    let site = Site::with_a_drive();
    let other = site.other_laptop();
    let lead = leading(&site);
    let run = ["run", "demo", "-d", "--", "sleep", "600"];
    other
        .run(&run)
        .is(0)
        .reports("joined the session of")
        .reports("is left running on");
    is_kept_for_hours(&site);
    lead.signal(Signal::TERM);
    lead.end()
        .is(143)
        .reports("another session goes on with it");
    is_kept_for_hours(&site);
    site.run(&["ps", "demo"]).is(0).prints("  running  ");
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_note_of_a_guest_is_recorded_unless_there_is_one() {
    let site = Site::with_a_drive();
    let other = site.other_laptop();
    let lead = leading(&site);
    let flags = ["--on-demand", "--size", "16", "--no-mounts"];
    let guest = |note: &str| {
        let words = ["connect", "demo", "-m", note];
        other.run(&[&words[..], &flags, &["--", "true"]].concat())
    };
    let first = guest("a guest's");
    first
        .is(0)
        .reports("joined the session of")
        .reports("--on-demand and --size are for a launch: demo is up on ")
        .reports("--no-mounts is for who starts the container, which runs as another session");
    let elsewhere = other.run(&["connect", "demo", "--from", "empty", "--", "true"]);
    elsewhere
        .is(75)
        .reports("--from is for one that nobody uses");
    assert!(
        !first.stderr.contains("is not recorded"),
        "{}",
        first.stderr
    );
    guest("another").is(0).reports(
        "the note is not recorded, as this generation has one (a guest's); xdrive --local note \
         demo TEXT does that\n",
    );
    lead.signal(Signal::TERM);
    lead.end().is(143);
    let logged = document("log", site.run(&["log", "demo", "--json"]).is(0));
    assert_eq!(logged[0]["note"], "a guest's");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_client_that_was_killed_and_whose_end_sshd_has_not_seen_is_not_joined() {
    let site = Site::with_a_drive();
    let lead = leading(&site);
    let carried = connections(&site);
    assert!(carried.len() >= 2, "{carried:?}");
    for connection in &carried {
        kill_process(*connection, Signal::STOP).unwrap();
    }
    lead.signal(Signal::KILL);
    assert_eq!(lead.end().code(), 128 + 9);
    let next = site.start(&["connect", "demo", "--", "true"]);
    // Long enough to be seen there, and for a waiting session to see it alive.
    std::thread::sleep(std::time::Duration::from_secs(5));
    for connection in &carried {
        kill_process(*connection, Signal::CONT).unwrap();
    }
    let next = next.end();
    next.is(0).reports("demo is saved: its snapshot (snap-");
    assert!(!next.stderr.contains("joined"), "{}", next.stderr);
    site.is_saved("demo", 2);
}
