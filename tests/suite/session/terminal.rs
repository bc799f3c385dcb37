//! Every ending in a terminal: its modes are restored, the exit code is right, and the next session
//! finds the synced data.

mod wide;

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
fn exit_end_of_file_and_escape_save() {
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
fn suspending_gives_the_terminal_back_and_continuing_takes_it_again() {
    let site = Site::with_a_drive();
    let mut pty = site.in_terminal(&["connect", "demo"]);
    // While there is no shell yet, Ctrl-Z is the terminal's own.
    pty.see_within(SESSION, "is up");
    pty.signal(Signal::TSTP);
    is_suspended(&pty);
    pty.signal(Signal::CONT);
    pty.see_within(SESSION, "# ");
    for (rows, by_escape) in [(33, true), (34, false)] {
        if by_escape {
            pty.type_in("\r~\x1a");
        } else {
            pty.signal(Signal::TSTP);
        }
        is_suspended(&pty);
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

fn is_suspended(pty: &Pty) {
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
