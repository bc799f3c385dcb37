//! Variants of `network`, which `shell/test.sh --all` runs.

use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::{LOST, NOTICED, NoAnswer, is_on_its_own_screen};
use crate::session::connection_lost::recorded;
use crate::session::site::{SESSION, Site};
use crate::session::terminal::{ends, has_words, shell_that_wrote};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_full_screen_program_draws_its_screen_again_when_the_network_is_back() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "full");
    let program = "trap 'printf \"\\033[H\\033[2Jdrawn-$((n+=1))-\"' WINCH; n=10; \
                   printf '\\033[?1049h\\033[Hwaiting-%d' $((6*7)); while :; do sleep 0.2; done";
    pty.type_in(&format!("bash -c '{}'\r", program.replace('\'', r"'\''")));
    pty.see("waiting-42");
    let silence = NoAnswer::begin(&site);
    pty.see_within(NOTICED, LOST);
    pty.see("waiting-42");
    drop(silence);
    pty.see_within(NOTICED, "drawn-1");
    let shown = pty.contents();
    assert!(!shown.contains("reconnecting"), "{shown}");
    pty.type_in("\x03");
    pty.type_in("printf '\\033[?1049l'; exit 4\r");
    ends(pty, &site, 4, 2);
    has_words(&site, &["full"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_escape_ends_a_session_whose_network_is_lost() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "escaped");
    let silence = NoAnswer::begin(&site);
    pty.see_within(NOTICED, LOST);
    pty.type_in("~.");
    let given_back = || pty.modes_are_as_before() && !is_on_its_own_screen(&pty);
    eventually_within(SESSION, || pty.contents(), given_back);
    // It saves as soon as the network is back.
    drop(silence);
    ends(pty, &site, 255, 2);
    has_words(&site, &["escaped"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_instance_that_is_gone_is_not_waited_for() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "gone");
    kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
    let began = std::time::Instant::now();
    pty.see_within(SESSION, "the drive was not closed by its last host");
    // The grace is a minute here, after the 20 seconds in which a silent host may come back.
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "it was waited for"
    );
    pty.see_within(SESSION, "resume on another instance (spot)?");
    pty.type_in("n\r");
    ends(pty, &site, 255, 2);
    let things = site.drive("demo")["things"].to_string();
    assert!(things.contains("crashed"), "{things}");
    has_words(&site, &["gone"]);
}
