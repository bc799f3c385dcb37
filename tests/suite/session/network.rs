//! The network, or the host behind it, is lost while a shell runs.

mod wide;

use std::process::Command;
use std::time::Duration;

use super::connection_lost::instance;
use super::site::{SESSION, Site};
use super::terminal::{ends, has_words, shell_that_wrote};
use harness::{Pty, eventually_within};

/// Longer than it takes to notice a silent host, on a busy machine.
pub(super) const NOTICED: Duration = Duration::from_mins(1);
pub(super) const LOST: &str = "connection lost, reconnecting for";

/// While this lives, all packets to and from the only instance are dropped silently.
pub(super) struct NoAnswer(String);

impl NoAnswer {
    pub(super) fn begin(site: &Site) -> Self {
        let silence = Self(instance(site).1);
        for rule in ["-I INPUT -j DROP", "-I OUTPUT -j DROP"] {
            let ended = silence.rule(rule).status().unwrap();
            assert!(ended.success(), "{rule}: {ended}");
        }
        silence
    }

    fn rule(&self, rule: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, "iptables", "-w"]);
        command.args(rule.split(' '));
        command
    }
}

impl Drop for NoAnswer {
    fn drop(&mut self) {
        for rule in ["-D INPUT -j DROP", "-D OUTPUT -j DROP"] {
            // The instance may have ended, and its rules with it.
            let _ = self.rule(rule).output();
        }
    }
}

fn is_on_its_own_screen(pty: &Pty) -> bool {
    pty.screen(vt100::Screen::alternate_screen)
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_network_that_comes_back_finds_the_same_shell_and_the_same_screen() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "before");
    let clear = "printf '\\033[H\\033[2J'";
    pty.type_in(&format!(
        "mine=$((40+2)); (sleep 8; echo meanwhile-$((1+1))) & {clear}\r"
    ));
    let is_clear = || !pty.contents().contains("synced-before");
    eventually_within(SESSION, || pty.contents(), is_clear);
    let silence = NoAnswer::begin(&site);
    pty.see_within(NOTICED, LOST);
    assert!(is_on_its_own_screen(&pty), "the shell's screen is spoilt");
    // Not for the shell: nothing typed is shown.
    pty.type_in("exit 1\r~#");
    pty.see("nothing is forwarded");
    pty.type_in("~$");
    pty.see("an hour, plus about");
    drop(silence);
    pty.see_within(NOTICED, "meanwhile-2");
    assert!(!is_on_its_own_screen(&pty));
    let shown = pty.contents();
    assert!(!shown.contains("reconnecting"), "{shown}");
    assert_eq!(shown.matches("meanwhile").count(), 1, "{shown}");
    pty.type_in("echo same-$mine\r");
    pty.see("same-42");
    // Commands and the client lock work too: the save needs both.
    pty.type_in("exit 6\r");
    ends(pty, &site, 6, 2);
    has_words(&site, &["before"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_network_that_stays_away_ends_the_shell_after_the_grace() {
    let site = Site::with_a_drive();
    let pty = shell_that_wrote(&site, "away");
    let silence = NoAnswer::begin(&site);
    pty.see_within(NOTICED, LOST);
    let given_back = || pty.modes_are_as_before();
    eventually_within(SESSION, || pty.contents(), given_back);
    pty.see_within(SESSION, "the host closes the drive itself");
    drop(silence);
    ends(pty, &site, 255, 2);
    has_words(&site, &["away"]);
}
