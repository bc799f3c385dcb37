//! A shell in a terminal, and the terminal's state after it.

use std::io::Read;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use sha2::{Digest as _, Sha256};
use xdrive::quote::quote;

use super::client::{TERMINALS, Task, report};
use super::link::Link;
use super::{DEADLINE, eventually, eventually_within};
use harness::Pty;
use harness::sshd::Sshd;

/// A shell whose prompt is computed, so that it cannot be taken for its own echo.
const SHELL: &str = "PS1=\"$((6*7))> \" exec sh -i";

pub(super) fn task(sshd: &Sshd) -> Task {
    let mut task = Task::new(sshd, SHELL);
    task.terminal = true;
    task
}

fn at_prompt(sshd: &Sshd) -> Pty {
    let pty = task(sshd).in_terminal();
    pty.see("42>");
    assert!(!pty.modes_are_as_before(), "raw mode is on");
    pty
}

pub(super) fn ended_well(mut pty: Pty, sshd: &Sshd, expected: &str) {
    pty.wait();
    assert_eq!(report(sshd), expected);
    assert!(pty.modes_are_as_before(), "the terminal's modes are back");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_shell_runs_in_a_terminal_of_the_same_kind_and_size() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    pty.type_in("echo $TERM $(stty size) $((40+4))\r");
    pty.see("xterm 24 80 44");
    pty.resize(30, 100);
    // The size travels beside what is typed.
    pty.type_in("until [ \"$(stty size)\" = '30 100' ]; do :; done; echo grown$((1+1))\r");
    pty.see("grown2");
    pty.type_in("exit 37\r");
    ended_well(pty, &sshd, "Status(37) 37");
}

#[test]
#[ignore = "needs root and sshd"]
fn the_remote_terminal_has_the_local_ones_keys() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    pty.type_in(
        "stty -a | tr ' ' '\\n' | grep -c -e '^-\\?iutf8' -e icrnl; stty -a | grep erase\r",
    );
    pty.see("erase = ^?");
    pty.type_in("exit\r");
    ended_well(pty, &sshd, "Status(0) 0");
}

#[test]
#[ignore = "needs root and sshd"]
fn ctrl_c_and_ctrl_z_belong_to_the_remote() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    pty.type_in("echo wait$((1+1)); sleep 1000\r");
    pty.see("wait2");
    pty.type_in("\x03");
    pty.type_in("echo over$((1+1))\r");
    pty.see("over2");
    pty.type_in("\x1a");
    pty.type_in("exit 5\r");
    ended_well(pty, &sshd, "Status(5) 5");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_pasted_megabyte_and_a_click_reach_a_program_byte_for_byte() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    // Every control character; no line begins with an escape.
    let characters: String = (0..=0xff_u8)
        .map(char::from)
        .chain("漢字🙂".chars())
        .collect();
    let text = characters.repeat((1 << 20) / characters.len() + 1);
    let typed = format!("\x1b[200~{text}\x1b[201~\x1b[<0;10;5M\x1b[<0;10;5m");
    let program = format!(
        "printf '\\033[?2004h\\033[?1000h'; stty raw -echo; echo ready-$((6*7)); \
         head -c {} | sha256sum; stty sane; echo over-$((6*7))",
        typed.len()
    );
    pty.type_in(&format!("{program}\r"));
    pty.see("ready-42");
    assert!(pty.screen(vt100::Screen::bracketed_paste));
    pty.type_in(&typed);
    pty.see(&hex::encode(Sha256::digest(&typed)));
    // Before that a return is not the end of a line.
    pty.see("over-42");
    pty.type_in("exit 3\r");
    ended_well(pty, &sshd, "Status(3) 3");
}

#[test]
#[ignore = "needs root and sshd"]
fn ctrl_c_ends_a_flood_soon() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    pty.type_in("yes\r");
    pty.see("y\ny\ny");
    pty.type_in("\x03");
    pty.type_in("clear; echo calm$((1+1))\r");
    pty.see("calm2");
    pty.type_in("exit 0\r");
    ended_well(pty, &sshd, "Status(0) 0");
}

/// Shows a terminal.py's terminal as a slow line does, a megabyte a second, and makes a file once it is
/// behind. Ends with the exit status of that.
const SLOW: &str = r#"
import os, pty, sys, time
behind, *words = sys.argv[1:]
program, terminal = pty.fork()
if program == 0:
    os.execvp("python3", ["python3", "-I", "-S", *words])
shown = 0
try:
    while True:
        shown += len(os.read(terminal, 4096))
        if shown > 1 << 20:
            open(behind, "w").close()
        time.sleep(0.004)
except OSError:
    pass  # the program has ended
sys.exit(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))
"#;

/// The fault: the exit code waited for a moment in which nothing was left to show.
#[test]
#[ignore = "needs root and sshd"]
fn a_shell_ends_although_what_it_leaves_behind_prints_faster_than_it_is_shown() {
    let sshd = Sshd::start();
    let behind = sshd.path("behind");
    let behind = behind.display();
    let shell = quote(&format!(
        "set -m; yes & until [ -e {behind} ]; do sleep 0.02; done; exit 4"
    ));
    let slow = quote(SLOW);
    let ended = sshd.inside(&format!(
        "timeout 40 python3 -c {slow} {behind} {TERMINALS} attach here 0 sh -c {shell}"
    ));
    assert_eq!(ended.code(), Some(4));
}

/// The fault: whoever asks which terminals were left waited for ever.
#[test]
#[ignore = "needs root and sshd"]
fn a_keeper_that_does_not_answer_is_named_to_who_asks_which_terminals_were_left() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    let keeper = sshd.path("keeper");
    let keeper = keeper.display();
    pty.type_in(&format!("echo $PPID >{keeper}; echo written-$((6*7))\r"));
    pty.see("written-42");
    let asked = sshd.inside(&format!(
        "read -r keeper <{keeper}; kill -STOP $keeper; timeout 40 python3 -I -S {TERMINALS} left; \
         status=$?; kill -CONT $keeper; exit $status"
    ));
    assert_eq!(asked.code(), Some(1));
    pty.type_in("exit 3\r");
    ended_well(pty, &sshd, "Status(3) 3");
}

#[test]
#[ignore = "needs root and sshd"]
fn escapes_list_themselves_and_end_the_session() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    pty.type_in("\r~?");
    pty.see("end the session and save");
    pty.type_in("\r~.");
    pty.wait();
    pty.see("~.");
    ended_well(pty, &sshd, "Escaped 255");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_line_to_the_session_is_not_for_the_host_and_holds_back_its_output() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    let (begun, over) = (sshd.path("begun"), sshd.path("over"));
    pty.type_in(&format!(
        "(until [ -e {} ]; do sleep 0.02; done; echo out$((1+1)); echo >{}) &\r",
        begun.display(),
        over.display()
    ));
    pty.type_in("\r~C-L 8x\x7f");
    pty.see("xdrive> -L 8");
    std::fs::write(begun, "").unwrap();
    eventually("the output", || over.exists());
    pty.type_in("0\x7f1\r");
    pty.see("out2");
    let shown = pty.contents();
    let place = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text} in {shown}"))
    };
    assert!(place("xdrive> -L 81") < place("the answer to Line(\"-L 81\")"));
    assert!(place("the answer to") < place("out2"), "{shown}");
    // Given up, it is answered by nothing; the next line is the shell's.
    pty.type_in("\r~C-L 99\x03echo still-$((6*7))\r");
    pty.see("still-42");
    assert!(
        !pty.contents().contains("Line(\"-L 99"),
        "{}",
        pty.contents()
    );
    pty.type_in("exit 3\r");
    ended_well(pty, &sshd, "Status(3) 3");
}

#[test]
#[ignore = "needs root and sshd"]
fn terminal_modes_that_are_left_on_are_switched_off() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    let on = r"printf '\033[?1049h\033[?1000h\033[?2004h\033[?25lfull%s' screen";
    pty.type_in(&format!("{on}\r"));
    pty.see("fullscreen");
    assert!(pty.screen(vt100::Screen::alternate_screen));
    pty.type_in("\r~.");
    pty.wait();
    eventually("a usable screen", || {
        pty.screen(|screen| {
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && !screen.bracketed_paste()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        })
    });
    ended_well(pty, &sshd, "Escaped 255");
}

#[test]
#[ignore = "needs root and sshd"]
fn signals_that_end_the_session_give_the_terminal_back() {
    let expected = [
        (Signal::TERM, "Terminate"),
        (Signal::HUP, "Hangup"),
        (Signal::QUIT, "Terminate"),
    ];
    for (signal, word) in expected {
        let sshd = Sshd::start();
        let pty = at_prompt(&sshd);
        pty.signal(signal);
        ended_well(pty, &sshd, word);
    }
}

#[test]
#[ignore = "needs root and sshd"]
fn a_panic_gives_the_terminal_back_before_it_speaks() {
    let sshd = Sshd::start();
    let mut fragile = task(&sshd);
    fragile.fragile = true;
    let mut pty = fragile.in_terminal();
    pty.see("42>");
    pty.signal(Signal::INT);
    pty.wait();
    pty.see("as asked");
    // In raw mode its lines would not begin at the margin.
    let start = pty.screen(|screen| {
        screen
            .rows(0, 80)
            .any(|row| row.trim_end() == "as asked" || row.starts_with("as asked"))
    });
    assert!(start, "{}", pty.contents());
    ended_well(pty, &sshd, "");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_closed_terminal_is_a_hang_up() {
    let sshd = Sshd::start();
    let (program, arguments, (name, value)) = task(&sshd).call();
    let call = format!("exec {} {}", program.display(), arguments.join(" "));
    // A terminal emulator without a window, which the test can close abruptly.
    let mut emulator = Command::new("script")
        .args(["--quiet", "--flush", "--command", &call, "/dev/null"])
        .env(name, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = emulator.stdout.take().unwrap();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("42>") {
        let mut some = [0; 100];
        let length = output.read(&mut some).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&some[..length]);
    }
    emulator.kill().unwrap();
    emulator.wait().unwrap();
    eventually("the client notices", || !report(&sshd).is_empty());
    // The client gets a signal and the end of its input, in either order.
    let report = report(&sshd);
    assert!(
        ["Hangup", "Escaped 255"].contains(&report.as_str()),
        "{report}"
    );
}

#[test]
#[ignore = "needs root and sshd"]
fn suspending_leaves_raw_mode_and_continuing_enters_it_again() {
    let sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    for by_escape in [true, false] {
        if by_escape {
            pty.type_in("\r~\x1a");
        } else {
            pty.signal(Signal::TSTP);
        }
        eventually("it stops", || pty.state() == 'T');
        assert!(pty.modes_are_as_before(), "while it is stopped");
        pty.resize(33, 99);
        pty.signal(Signal::CONT);
        eventually("raw mode again", || !pty.modes_are_as_before());
        pty.type_in("\runtil [ \"$(stty size)\" = '33 99' ]; do :; done; echo back$((1+1))\r");
        pty.see("back2");
        pty.type_in("clear\r");
        eventually("a clear screen", || !pty.contents().contains("back2"));
    }
    pty.type_in("exit 8\r");
    ended_well(pty, &sshd, "Status(8) 8");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_host_that_dies_gives_the_terminal_back() {
    let mut sshd = Sshd::start();
    let mut pty = at_prompt(&sshd);
    sshd.kill();
    pty.wait();
    assert!(pty.modes_are_as_before());
    let report = report(&sshd);
    assert!(report.starts_with("Lost("), "{report}");
}

#[test]
#[ignore = "needs root and sshd"]
fn the_escape_works_on_a_dead_link() {
    let sshd = Sshd::start();
    let link = Link::to(sshd.address);
    let mut through = task(&sshd);
    through.address = link.address;
    let mut pty = through.in_terminal();
    pty.see("42>");
    link.die();
    pty.type_in(&"what nobody takes\r".repeat(1000));
    pty.type_in("~.");
    ended_well(pty, &sshd, "Escaped 255");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_dead_link_ends_the_shell_when_the_host_has_been_silent_for_fifteen_seconds() {
    let sshd = Sshd::start();
    let link = Link::to(sshd.address);
    let mut through = task(&sshd);
    through.address = link.address;
    let pty = through.in_terminal();
    pty.see("42>");
    link.die();
    eventually_within(2 * DEADLINE, "the end", || !report(&sshd).is_empty());
    ended_well(pty, &sshd, "Lost(\"no answer for 15 seconds\") 255");
}
