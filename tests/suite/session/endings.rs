//! Every ending of a session, and its save.

mod wide;

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::site::{Running, SESSION, Site};

const UNTIL_KILLED: &str = "echo begun; sleep 1000";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_streams_and_the_exit_code_are_the_commands_own() {
    let site = Site::with_a_drive();
    let script = "cat; echo problem >&2; exit 37";
    let mut command = site.command(&["connect", "demo", "--", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let every_byte: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let mut stdin = child.stdin.take().unwrap();
    let sent = every_byte.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(37));
    assert!(output.stdout == every_byte, "{} bytes", output.stdout.len());
    let report = String::from_utf8(output.stderr).unwrap();
    assert_eq!(report.matches("problem").count(), 1, "{report}");
    site.is_saved("demo", 2);

    let killed = site.run(&["connect", "demo", "--", "sh", "-c", "kill -9 $$"]);
    killed.is(128 + 9);
    site.run(&["connect", "demo", "--", "no-such-program"])
        .is(127);
    site.is_saved("demo", 4);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ctrl_c_goes_to_the_command_and_a_second_one_saves() {
    let site = Site::with_a_drive();
    let polite = "trap 'echo caught; exit 5' INT; echo begun; while :; do sleep 0.1; done";
    let mut session = site.start(&["connect", "demo", "--", "sh", "-c", polite]);
    session.prints("begun\n");
    session.signal(Signal::INT);
    let ended = session.end();
    assert_eq!(ended.is(5).stdout, "begun\ncaught\n");
    site.is_saved("demo", 2);

    let deaf = "trap 'echo caught' INT; echo begun; while :; do sleep 0.1; done";
    let mut session = site.start(&["connect", "demo", "--", "sh", "-c", deaf]);
    session.prints("begun\n");
    session.signal(Signal::INT);
    session.prints("caught\n");
    session.insists(Signal::INT);
    session
        .end()
        .is(130)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_signal_that_asks_for_the_end_saves() {
    let site = Site::with_a_drive();
    for (index, (signal, code)) in [(Signal::TERM, 143), (Signal::HUP, 129)]
        .into_iter()
        .enumerate()
    {
        let mut session = site.start(&["connect", "demo", "--", "sh", "-c", UNTIL_KILLED]);
        session.prints("begun\n");
        session.signal(signal);
        session
            .end()
            .is(code)
            .reports("demo is saved: its snapshot (snap-");
        site.is_saved("demo", 2 + index);
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn before_the_drive_was_ever_used_an_interrupt_undoes_and_after_that_it_saves() {
    let site = Site::new();
    let image = site.image();
    let begin = || site.start(&["connect", "demo", "--image", &image, "--", "true"]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut session = begin();
        session.reports("launched demo's instance (i-");
        session.signal(signal);
        session
            .end()
            .is(code)
            .reports("cancelled: demo is unchanged");
        site.is_saved("demo", 0);
    }
    let mut session = begin();
    session.reports("loaded the image");
    session.signal(Signal::INT);
    session
        .end()
        .is(130)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
    // A drive without any data is saved all the same.
    begin().end().is(0);
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_interrupt_while_saving_stops_only_the_waiting() {
    let site = Site::with_a_drive();
    let mut session = site.start(&["connect", "demo", "--", "sh", "-c", "echo kept >/root-note"]);
    session.reports("container stopped");
    session.signal(Signal::INT);
    session.signal(Signal::INT);
    let ended = session.end();
    // Either it was quicker, or it prints that the next run will save.
    if ended.code() != 0 {
        ended.is(75).reports("the next run does the rest");
    }
    let next = site.run(&["connect", "demo", "--", "cat", "/root-note"]);
    assert_eq!(next.is(0).stdout, "kept\n");
    assert!(site.kinds("demo").iter().all(|kind| kind == "snapshot"));
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_escape_and_a_closed_terminal_save() {
    let site = Site::with_a_drive();
    let mut pty = site.in_terminal(&["connect", "demo"]);
    pty.see_within(SESSION, "# ");
    pty.type_in("\r~.");
    assert_eq!(pty.wait_within(SESSION), 255, "{}", pty.contents());
    assert!(pty.modes_are_as_before());
    site.is_saved("demo", 2);

    // A terminal emulator without a window, which the test can close abruptly.
    let report = site.path("report");
    let call = format!(
        "exec {} --local connect demo 2>{}",
        env!("CARGO_BIN_EXE_xdrive"),
        report.display()
    );
    let mut command = Command::new("script");
    let plain = site.command(&[]);
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    command
        .args(["--quiet", "--flush", "--command", &call, "/dev/null"])
        .stdin(Stdio::piped())
        .stderr(File::create(site.path("script-report")).unwrap());
    let mut emulator = Running::start(&mut command);
    emulator.prints("# ");
    emulator.signal(Signal::KILL);
    emulator.end();
    harness::eventually_within(
        SESSION,
        || std::fs::read_to_string(&report).unwrap(),
        || {
            std::fs::read_to_string(&report)
                .unwrap()
                .contains("demo is saved")
        },
    );
    site.is_saved("demo", 3);
}
