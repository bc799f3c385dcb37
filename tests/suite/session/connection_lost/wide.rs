//! Variants of `connection_lost`, which `shell/test.sh --all` runs.

use std::fs::{self, File};
use std::process::Command;

use super::{recorded, working};
use crate::session::site::{Ended, Running, Site};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_switches_itself_off_leaves_a_saved_drive_and_nothing_else() {
    let site = Site::new();
    let running = working(&site);
    let init = recorded(&site, "init.json").as_raw_nonzero().to_string();
    let off = Command::new("nsenter")
        .args(["-t", &init, "-a", "systemctl", "poweroff"])
        .output()
        .unwrap();
    let ended = running.end();
    assert_ne!(ended.code(), 0, "{ended:?}, {off:?}");
    ended.reports("demo is saved");
    site.is_saved("demo", 1);
    let after = site.run(&["connect", "demo", "--", "cat", "/work/note"]);
    assert_eq!(after.is(0).stdout, "kept\n");
}

/// A session at work whose command got three mebibytes of input, after it has run this.
fn fed(site: &Site, script: &str) -> Running {
    let input = site.path("input");
    fs::write(&input, vec![0; 3 << 20]).unwrap();
    let image = site.image();
    // What the command does not read has arrived at its host by then.
    let script = format!("{script}; sleep 3; echo at work >&2; sleep 600");
    let session = ["connect", "demo", "--image", &image, "--", "sh", "-c"];
    let mut command = site.command(&[&session[..], &[&script]].concat());
    command.stdin(File::open(input).unwrap());
    let mut running = site.start_command(command);
    running.reports("at work");
    running
}

/// Checks what was reported: a command is given a mebibyte before it reads, but for what its pipe's
/// pages do not hold.
fn leaves_two_mebibytes(ended: &Ended) {
    let reported = ended.stderr.lines().find_map(|line| {
        line.strip_suffix(" bytes of the command's input may not have reached it")
    });
    let bytes: u32 = reported.expect(&ended.stderr).parse().unwrap();
    assert!((2 << 20..9 << 18).contains(&bytes), "{bytes}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn input_that_a_closing_host_leaves_unread_is_reported() {
    let site = Site::new();
    let running = fed(&site, ":");
    site.run(&["stop", "demo"]).is(0);
    let stopped = running.end();
    stopped.is(255).reports("the host closed the drive: ");
    leaves_two_mebibytes(&stopped);

    let running = fed(&site, ":");
    site.interrupt("demo", 120);
    let interrupted = running.end();
    interrupted.is(75).reports("which ended the command");
    leaves_two_mebibytes(&interrupted);

    // Of what the command has read nothing is reported.
    let running = fed(&site, "cat >/dev/null");
    site.run(&["stop", "demo"]).is(0);
    let read = running.end();
    read.is(255).reports("the host closed the drive: ");
    assert!(!read.stderr.contains("input"), "{}", read.stderr);
    let listed = site.run(&["list", "demo"]);
    listed.is(0).prints("saved, generation 3");
}
