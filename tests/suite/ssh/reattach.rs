//! The terminal over another connection, after the first was lost.

use super::client::report;
use super::eventually;
use super::link::Link;
use super::terminal::{ended_well, task};
use harness::Pty;
use harness::sshd::Sshd;

/// A shell over the first link, which reattaches over the second as soon as that carries data.
fn between_two_links(sshd: &Sshd) -> (Pty, Link, Link) {
    let (first, second) = (Link::to(sshd.address), Link::to(sshd.address));
    second.die();
    let mut task = task(sshd);
    task.address = first.address;
    task.second = Some(second.address);
    let pty = task.in_terminal();
    pty.see("42>");
    (pty, first, second)
}

/// Cuts the link: a notice appears on the alternate screen.
fn cut(pty: &Pty, first: &Link) {
    first.cut();
    pty.see("a notice");
    assert!(pty.screen(vt100::Screen::alternate_screen));
}

#[test]
#[ignore = "needs root and sshd"]
fn output_missed_while_cut_off_is_shown_from_the_first_missed_byte_on() {
    let sshd = Sshd::start();
    let (mut pty, first, second) = between_two_links(&sshd);
    let over = sshd.path("over");
    pty.type_in(&format!(
        "printf '\\033[H\\033[2J'; for i in $(seq 1 400); do printf \"$i \"; sleep 0.005; done; \
         echo end-$((6*7)); echo >{}\r",
        over.display()
    ));
    pty.see("20 21 22 ");
    cut(&pty, &first);
    eventually("the end of the command", || over.exists());
    second.revive();
    pty.see("end-42");
    let shown: String = pty.contents().split('\n').collect();
    let all: Vec<String> = (1..=400).map(|number: u16| number.to_string()).collect();
    // The screen's rows have no blanks at their ends.
    let bare = |text: &str| text.replace(' ', "");
    assert!(
        bare(&shown).starts_with(&all.concat()),
        "{}",
        pty.contents()
    );
    pty.type_in("exit 4\r");
    ended_well(pty, &sshd, "Status(4) 4");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_command_that_ended_meanwhile_has_its_last_output_and_its_exit_code() {
    let sshd = Sshd::start();
    let (mut pty, first, second) = between_two_links(&sshd);
    let (gone, over) = (sshd.path("gone"), sshd.path("over"));
    pty.type_in(&format!(
        "echo begun-$((6*7)); until [ -e {} ]; do sleep 0.02; done; echo last-$((6*7)); echo >{}; exit 9\r",
        gone.display(),
        over.display()
    ));
    pty.see("begun-42");
    cut(&pty, &first);
    std::fs::write(gone, "").unwrap();
    eventually("the end of the command", || over.exists());
    second.revive();
    pty.see("last-42");
    ended_well(pty, &sshd, "Status(9) 9");
}

#[test]
#[ignore = "needs root and sshd"]
fn more_output_than_is_kept_leaves_the_end_of_it_on_a_clear_screen() {
    let sshd = Sshd::start();
    let (mut pty, first, second) = between_two_links(&sshd);
    let (gone, over) = (sshd.path("gone"), sshd.path("over"));
    pty.type_in(&format!(
        "echo begun-$((6*7)); until [ -e {} ]; do sleep 0.02; done; seq 1 300000; echo end-$((6*7)); echo >{}\r",
        gone.display(),
        over.display()
    ));
    pty.see("begun-42");
    cut(&pty, &first);
    std::fs::write(gone, "").unwrap();
    // Its output is not read, and it is not blocked.
    eventually("the end of the flood", || over.exists());
    second.revive();
    pty.see("300000\nend-42");
    pty.type_in("echo still-$((6*7))\r");
    pty.see("still-42");
    pty.type_in("exit 0\r");
    ended_well(pty, &sshd, "Status(0) 0");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_shell_that_is_gone_is_reported_as_gone() {
    let sshd = Sshd::start();
    let (mut pty, first, second) = between_two_links(&sshd);
    pty.type_in("echo $PPID >keeper; echo written-$((6*7))\r");
    pty.see("written-42");
    cut(&pty, &first);
    // Kills it as a reboot of the host does.
    let keeper = std::fs::read_to_string(sshd.path("keeper")).unwrap();
    let killed = sshd.inside(&format!("kill -KILL {keeper}"));
    assert!(killed.success(), "{killed}");
    second.revive();
    ended_well(pty, &sshd, "gone");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_line_to_the_session_that_was_begun_meanwhile_is_given_up() {
    let sshd = Sshd::start();
    let (mut pty, first, second) = between_two_links(&sshd);
    cut(&pty, &first);
    pty.type_in("~C-L 8");
    pty.see("xdrive> -L 8");
    second.revive();
    eventually("the shell's screen", || {
        !pty.screen(vt100::Screen::alternate_screen)
    });
    pty.type_in("echo still-$((6*7))\r");
    pty.see("still-42");
    pty.type_in("exit 6\r");
    ended_well(pty, &sshd, "Status(6) 6");
}

#[test]
#[ignore = "needs root and sshd"]
fn escapes_work_while_there_is_no_connection_and_nothing_else_is_typed() {
    let sshd = Sshd::start();
    for (typed, end) in [("~.", "Escaped while away"), ("~d", "Detached while away")] {
        let (mut pty, first, _second) = between_two_links(&sshd);
        cut(&pty, &first);
        pty.type_in("~#~$");
        pty.see("the answer to Forwards");
        pty.see("the answer to Cost");
        pty.type_in("exit 3\r");
        pty.type_in(typed);
        ended_well(pty, &sshd, end);
        // The next client shall not read this one's report.
        assert_eq!(report(&sshd), end);
        let left = sshd.inside("rm -rf /run/xdrive");
        assert!(left.success(), "{left}");
    }
}
