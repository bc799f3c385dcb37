//! Every ending in a terminal: its modes are restored, the exit code is right, and the next session
//! finds the synced data.

use rustix::process::Signal;

use super::site::{SESSION, Site};
use harness::{Pty, eventually_within};

/// A shell of the drive, which has synced `word` on it.
pub(super) fn shell_that_wrote(site: &Site, word: &str) -> Pty {
    let mut pty = site.in_terminal(&["connect", "demo"]);
    pty.see_within(SESSION, "# ");
    assert!(!pty.modes_are_as_before(), "raw mode is on");
    write(&mut pty, word);
    pty
}

/// Syncs `word` on the drive.
pub(super) fn write(pty: &mut Pty, word: &str) {
    pty.type_in(&format!(
        "echo {word} >>/work/words; sync; echo synced-{word}-$((6*7))\r"
    ));
    pty.see_within(SESSION, &format!("synced-{word}-42"));
}

/// Checks that it ends with `code`, the terminal is as before, and the drive is `snapshots`
/// snapshots.
pub(super) fn ends(mut pty: Pty, site: &Site, code: u32, snapshots: usize) {
    assert_eq!(pty.wait_within(SESSION), code, "{}", pty.contents());
    assert!(pty.modes_are_as_before(), "{}", pty.contents());
    pty.see("demo is saved: its snapshot (snap-");
    site.is_saved("demo", snapshots);
}

/// Checks that the next session finds these words on the drive.
pub(super) fn has_words(site: &Site, words: &[&str]) {
    let next = site.run(&["connect", "demo", "--", "cat", "/work/words"]);
    let said: Vec<&str> = next.is(0).stdout.lines().collect();
    assert_eq!(said, words);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn what_is_typed_to_end_a_shell_saves() {
    let site = Site::with_a_drive();
    let typed = [("exit 7\r", 7), ("\x04", 0), ("\r~.", 255)];
    let words = ["exit", "end-of-file", "escape"];
    for (index, (typed, code)) in typed.into_iter().enumerate() {
        let mut pty = shell_that_wrote(&site, words[index]);
        pty.type_in(typed);
        ends(pty, &site, code, index + 2);
    }
    has_words(&site, &words);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_signal_from_outside_saves_and_gives_the_terminal_back() {
    let site = Site::with_a_drive();
    let signals = [
        (Signal::TERM, 143, "term"),
        (Signal::HUP, 129, "hup"),
        (Signal::QUIT, 143, "quit"),
        (Signal::INT, 130, "int"),
    ];
    for (index, (signal, code, word)) in signals.into_iter().enumerate() {
        let pty = shell_that_wrote(&site, word);
        pty.signal(signal);
        ends(pty, &site, code, index + 2);
    }
    has_words(&site, &signals.map(|(_, _, word)| word));
}

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
fn suspending_gives_the_terminal_back_and_continuing_takes_it_again() {
    let site = Site::with_a_drive();
    let mut pty = site.in_terminal(&["connect", "demo"]);
    // While there is no shell yet, Ctrl-Z is the terminal's own.
    pty.see_within(SESSION, "is up");
    pty.signal(Signal::TSTP);
    stopped(&pty);
    pty.signal(Signal::CONT);
    pty.see_within(SESSION, "# ");
    for (rows, by_escape) in [(33, true), (34, false)] {
        if by_escape {
            pty.type_in("\r~\x1a");
        } else {
            pty.signal(Signal::TSTP);
        }
        stopped(&pty);
        pty.resize(rows, 99);
        pty.signal(Signal::CONT);
        let raw = || !pty.modes_are_as_before();
        eventually_within(SESSION, || "raw mode again".to_owned(), raw);
        // The size travels beside what is typed.
        pty.type_in(&format!(
            "\runtil [ \"$(stty size)\" = '{rows} 99' ]; do :; done; echo back$((1+1)) {rows}\r"
        ));
        pty.see(&format!("back2 {rows}"));
    }
    write(&mut pty, "suspended");
    pty.type_in("exit 8\r");
    ends(pty, &site, 8, 2);
    has_words(&site, &["suspended"]);
}

fn stopped(pty: &Pty) {
    let is_stopped = || pty.state() == 'T';
    eventually_within(SESSION, || pty.contents(), is_stopped);
    assert!(pty.modes_are_as_before(), "while it is stopped");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ctrl_c_before_the_shell_undoes_or_saves() {
    let site = Site::new();
    let image = site.image();
    let begin = || site.in_terminal(&["connect", "demo", "--image", &image]);
    let mut pty = begin();
    pty.see_within(SESSION, "launched demo's instance (i-");
    pty.type_in("\x03");
    assert_eq!(pty.wait_within(SESSION), 130, "{}", pty.contents());
    assert!(pty.modes_are_as_before());
    pty.see("cancelled: demo is unchanged");
    site.is_saved("demo", 0);

    site.session("demo", &["true"]).is(0);
    let mut pty = site.in_terminal(&["connect", "demo"]);
    pty.see_within(SESSION, "mounted, generation 2");
    pty.type_in("\x03");
    ends(pty, &site, 130, 2);
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
