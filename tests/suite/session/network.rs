//! The network, or the host behind it, is lost while a shell runs.

use std::process::Command;
use std::time::Duration;

use super::connection_lost::{instance, recorded};
use super::site::{SESSION, Site};
use super::terminal::{ends, has_words, shell_that_wrote};
use harness::{Pty, eventually_within};
use rustix::process::{Signal, kill_process};

/// Longer than it takes to notice a silent host, on a busy machine.
pub(super) const NOTICED: Duration = Duration::from_mins(1);
pub(super) const LOST: &str = "connection lost, reconnecting for";

/// While this lives, all packets to and from the only instance are dropped silently.
pub(super) struct NoAnswer(String);

impl NoAnswer {
    pub(super) fn of(site: &Site) -> Self {
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
    let silence = NoAnswer::of(&site);
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
fn a_full_screen_program_draws_its_screen_again_when_the_network_is_back() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "full");
    let program = "trap 'printf \"\\033[H\\033[2Jdrawn-$((n+=1))-\"' WINCH; n=10; \
                   printf '\\033[?1049h\\033[Hwaiting-%d' $((6*7)); while :; do sleep 0.2; done";
    pty.type_in(&format!("bash -c '{}'\r", program.replace('\'', r"'\''")));
    pty.see("waiting-42");
    let silence = NoAnswer::of(&site);
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
    let silence = NoAnswer::of(&site);
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
fn a_network_that_stays_away_ends_the_shell_after_the_grace() {
    let site = Site::with_a_drive();
    let pty = shell_that_wrote(&site, "away");
    let silence = NoAnswer::of(&site);
    pty.see_within(NOTICED, LOST);
    let given_back = || pty.modes_are_as_before();
    eventually_within(SESSION, || pty.contents(), given_back);
    pty.see_within(SESSION, "the host closes the drive itself");
    drop(silence);
    ends(pty, &site, 255, 2);
    has_words(&site, &["away"]);
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
