//! Variants of `terminal`, which `shell/test.sh --all` runs.

use super::{ends, has_words, shell_that_wrote, write};
use crate::session::site::{SESSION, Site};
use harness::{Pty, eventually_within};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_shell_without_standard_error_works_and_is_saved() {
    let site = Site::with_a_drive();
    let call = format!(
        "exec {} --local connect demo 2>&-",
        env!("CARGO_BIN_EXE_xdrive")
    );
    let mut pty = site.program_in_terminal(&["sh", "-c", &call]);
    pty.see_within(SESSION, "# ");
    write(&mut pty, "silent");
    pty.type_in("exit 3\r");
    assert_eq!(pty.wait_within(SESSION), 3, "{}", pty.contents());
    assert!(pty.modes_are_as_before());
    site.is_saved("demo", 2);
    has_words(&site, &["silent"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ctrl_c_is_the_commands_and_twice_at_once_it_saves() {
    let site = Site::with_a_drive();
    let polite = "trap 'echo polite >>/work/words; sync; exit 5' INT; echo begun-$((6*7)); \
                  while :; do sleep 0.1; done";
    let begin = |script: &str| site.in_terminal(&["connect", "demo", "--", "sh", "-c", script]);
    let mut pty = begin(polite);
    pty.see_within(SESSION, "begun-42");
    pty.type_in("\x03");
    ends(pty, &site, 5, 2);

    let deaf = "trap 'echo caught' INT; echo deaf >>/work/words; sync; echo begun-$((6*7)); \
                while :; do sleep 0.1; done";
    let mut pty = begin(deaf);
    pty.see_within(SESSION, "begun-42");
    pty.type_in("\x03");
    insist(&mut pty);
    ends(pty, &site, 130, 3);
    has_words(&site, &["polite", "deaf"]);
}

/// Types Ctrl-C again each time the command has caught one, until two count as insisting: on a busy
/// machine more than two seconds may pass in between.
fn insist(pty: &mut Pty) {
    let end = std::time::Instant::now() + SESSION;
    let mut caught = 0;
    while !pty.contents().contains("container stopped") {
        let now = pty.contents().matches("caught").count();
        if now > caught {
            caught = now;
            pty.type_in("\x03");
        }
        assert!(std::time::Instant::now() < end, "{}", pty.contents());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ctrl_c_while_the_host_closes_reports_why_it_goes_on() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "stubborn");
    // A program that ignores SIGTERM delays the close for ten seconds.
    pty.type_in("(trap '' TERM; while :; do sleep 1; done) & exit 9\r");
    let closing = || pty.modes_are_as_before();
    eventually_within(SESSION, || pty.contents(), closing);
    pty.type_in("\x03");
    pty.see("cannot stop here: the drive is not saved yet");
    // The instance is not billed any more then, and the session does not wait for the rest.
    assert_eq!(pty.wait_within(SESSION), 9, "{}", pty.contents());
    assert!(pty.modes_are_as_before());
    pty.see("container stopped");
    has_words(&site, &["stubborn"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ctrl_c_while_the_snapshot_is_copied_stops_only_the_waiting() {
    // A snapshot takes three quarters of a minute, as on AWS.
    let slow = "delays = \"aws\"\nstale-lists-ms = 0\nstale-reads-ms = 0\n";
    let site = Site::with_settings(slow);
    let image = site.image();
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &image]);
    pty.see_within(SESSION, "# ");
    write(&mut pty, "copied");
    pty.type_in("exit\r");
    pty.see_within(SESSION, "terminated demo's instance (i-");
    pty.see_within(SESSION, "wait for the snapshot");
    pty.type_in("\x03");
    assert_eq!(pty.wait_within(SESSION), 75, "{}", pty.contents());
    assert!(pty.modes_are_as_before());
    pty.see("the bill for the instance has stopped");
    pty.see("the next run does the rest");
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
    site.set("");
    has_words(&site, &["copied"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_has_a_terminal_where_that_is_asked_for_and_can_be_left_in_it() {
    let site = Site::with_a_drive();
    let tells = "[ -t 0 ] && [ -t 1 ] && echo \"terminal: $COLORTERM, $0, $XDRIVE_NOTICE, $LANG\"
        read line; exit 5";
    let flags = ["--notice", "40", "-t"];
    let words = [
        &["connect", "demo"][..],
        &flags,
        &["--", "sh", "-c", tells, "as typed"],
    ]
    .concat();
    let program = [
        "env",
        "COLORTERM=truecolor",
        env!("CARGO_BIN_EXE_xdrive"),
        "--local",
    ];
    let mut pty = site.program_in_terminal(&[&program[..], &words].concat());
    pty.see_within(SESSION, "terminal: truecolor, as typed, 40, C.UTF-8");
    pty.type_in("\r");
    ends(pty, &site, 5, 2);

    let mut pty = site.in_terminal(&words);
    pty.see_within(SESSION, "terminal: , as typed, 40, C.UTF-8");
    pty.type_in("~d");
    pty.see_within(SESSION, "connect demo  comes back to it");
    assert_eq!(pty.wait_within(SESSION), 0);
    let mut back = site.in_terminal(&["connect", "demo"]);
    back.see_within(SESSION, "terminal: , as typed, 40, C.UTF-8");
    back.type_in("\r");
    ends(back, &site, 5, 3);

    for (words, why, hint) in [
        (
            &["connect", "demo", "-t", "--", "true"][..],
            "there is no terminal here for -t",
            "connect demo -- CMD… runs a command without one",
        ),
        (
            &["run", "demo", "-t", "--", "true"],
            "a run has no terminal",
            "connect demo -t -- CMD…, and ~d leaves it",
        ),
    ] {
        site.run(words).is(2).reports(why).reports(hint);
    }
}
