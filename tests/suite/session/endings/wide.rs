//! Variants of `endings`, which `shell/test.sh --all` runs.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::session::site::{SESSION, Site};
use crate::session::tree::inside;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_shell_without_a_terminal_runs_the_script_that_it_reads() {
    let site = Site::with_a_drive();
    let mut command = site.command(&["connect", "demo", "-T"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "[ -t 0 ] || echo no terminal\nshopt -q login_shell && echo a login shell\nexit 6\necho late\n";
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, "no terminal\na login shell\n");
    assert_eq!(output.status.code(), Some(6));
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_reader_that_leaves_early_ends_the_command_and_the_drive_is_saved() {
    let site = Site::with_a_drive();
    // More than any pipe or window holds, until its reader has gone.
    let script = "while :; do echo yes; done";
    let mut command = site.command(&["connect", "demo", "--", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(128 + 13), "{ended:?}");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_stderr_that_is_closed_or_not_read_is_no_reason_not_to_save() {
    let site = Site::with_a_drive();
    let program = site.command(&[]);
    let program = program.get_program().to_str().unwrap().to_owned();
    let closed = format!("exec {program} --local connect demo -- echo done 2>&-");
    let mut shell = Command::new("sh");
    let plain = site.command(&[]);
    for (name, value) in plain.get_envs() {
        shell.env(name, value.unwrap());
    }
    let ended = shell.args(["-c", &closed]).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "done\n");
    site.is_saved("demo", 2);

    let mut command = site.command(&["connect", "demo", "--", "echo", "done"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "done\n");
    site.is_saved("demo", 3);
}

/// The fault: where its laptop still counted as there when the command ended, nothing of it was on record.
#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_that_ends_while_its_laptop_is_silent_is_on_record() {
    let site = Site::with_a_drive();
    let command = "echo begun; until [ -e /work/end ]; do sleep 0.1; done; echo over; exit 5";
    let mut running = site.start(&["connect", "demo", "--", "sh", "-c", command]);
    running.prints("begun\n");
    running.signal(Signal::STOP);
    inside(&site, "touch /v1/work/end");
    let list = "python3 -I -S /var/lib/xdrive/scripts/*/runs.py list";
    let listed = || inside(&site, list);
    let has_ended = || listed().contains("\"is_settled\": true");
    harness::eventually_within(SESSION, listed, has_ended);
    let records = || inside(&site, "cat /v1/xdrive/runs/*/record 2>/dev/null || true");
    assert_eq!(records(), "");
    running.signal(Signal::KILL);
    running.end();
    let is_on_record = || records().contains("\"status\": 5");
    harness::eventually_within(SESSION, records, is_on_record);
    let attached = site.run(&["attach", "demo"]);
    attached.is(5).reports("demo is saved");
    assert_eq!(attached.stdout, "begun\nover\n");
    site.is_saved("demo", 2);
}
