//! Variants of `runs`, which `shell/test.sh --all` runs.

use std::path::PathBuf;

use rustix::process::{Signal, kill_process};

use super::{end, is_kept_for_hours, is_switched_off, waiting};
use crate::session::connection_lost::{connections, errors, numbers, recorded};
use crate::session::json::document;
use crate::session::site::{SESSION, Site};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_goes_on_when_its_terminal_is_closed() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&waiting(&["run", "demo"], &image));
    running.prints("begun\n");
    running.signal(Signal::HUP);
    let left = running.end();
    left.is(0).reports("until its command has ended");
    site.run(&["ps", "demo"]).is(0).prints("  running  ");
    end(&site);
    let attached = site.run(&["attach", "demo"]);
    attached.is(5).reports("demo is saved");
    assert_eq!(attached.stdout, "begun\nover\n");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_is_over_before_its_laptop_leaves_keeps_no_host() {
    let site = Site::new();
    let image = site.image();
    let run = ["run", "demo", "-d", "--no-jupyter", "--image", &image];
    let started = site.run(&[&run[..], &["--", "true"]].concat());
    started.is(0).reports("until its command has ended");
    is_switched_off(&site);
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}

/// Counts its runs, and ends at once when it is asked to.
const COUNTING: &str = "echo run >>/work/runs; sync; set -- $(cat /work/runs); echo run-$#; \
                        while :; do sleep 0.1; done";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_instance_that_is_taken_before_the_run_began_on_it_is_no_try() {
    // The container waits for the driver so long after each boot.
    let site = Site::with_settings("[gpu]\ndriver = \"late\"\nseconds = 20\n");
    let image = site.image();
    let run = ["run", "demo", "--restart", "--tries", "1", "--no-jupyter"];
    let spot = ["--type", "g4dn.xlarge", "--fallback", "none"];
    let command = ["--image", &image, "--", "sh", "-c", COUNTING];
    let mut running = site.start(&[&run[..], &spot, &command].concat());
    running.prints("run-1\n");
    site.interrupt("demo", 120);
    running.reports("the command is started again, for the last time");
    running.reports("mounted, generation 2");
    let second = site.interrupt("demo", 120);
    running.reports(&format!(
        "the command had not begun on demo's instance ({second})"
    ));
    running.prints("run-2\n");
    site.interrupt("demo", 120);
    let ended = running.end();
    ended.is(75).reports("which ended the command");
    assert_eq!(ended.stdout, "run-1\nrun-2\n");
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn who_follows_a_run_goes_on_at_the_very_byte_when_the_connection_goes_silent() {
    let site = Site::new();
    let image = site.image();
    // Longer than a silence of 25 s, after which every connection is given up.
    let script = "i=0; while [ $i -lt 400 ]; do echo $i; echo e$i >&2; i=$((i+1)); sleep 0.1; done; \
                  exit 7";
    let run = ["run", "demo", "-d", "--no-jupyter", "--image", &image];
    site.run(&[&run[..], &["--", "sh", "-c", script]].concat())
        .is(0);
    let mut follower = site.start(&["logs", "demo", "-f"]);
    follower.prints("\n20\n");
    for connection in connections(&site) {
        kill_process(connection, Signal::STOP).unwrap();
    }
    let ended = follower.end();
    ended
        .is(0)
        .reports("the connection was lost: ")
        .reports(" again after ");
    assert_eq!(ended.stdout, numbers("", 400));
    assert_eq!(errors(&ended), numbers("e", 400));
    assert!(!ended.stderr.contains("are lost"), "{}", ended.stderr);
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_was_stopped_while_its_laptop_slept_is_not_started_again() {
    let site = Site::new();
    let image = site.image();
    let run = [
        "run",
        "demo",
        "--restart",
        "--no-jupyter",
        "--image",
        &image,
    ];
    let script = ["--", "sh", "-c", "echo begun; sleep 1000"];
    let mut running = site.start(&[&run[..], &script].concat());
    running.prints("begun\n");
    running.signal(Signal::STOP);
    site.run(&["stop", "demo"]).is(0).reports("demo is saved");
    running.signal(Signal::CONT);
    let ended = running.end();
    ended.is(255);
    assert!(!ended.stderr.contains("started again"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "begun\n");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_whose_laptop_stays_away_ends_its_lease_with_it() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&waiting(&["connect", "demo"], &image));
    running.prints("begun\n");
    is_kept_for_hours(&site);
    end(&site);
    // It is killed between the command's end, once it knows of that, and the save, or while it saves.
    let init = recorded(&site, "init.json").as_raw_nonzero();
    let ended = PathBuf::from(format!("/proc/{init}/root/run/xdrive/run-ended"));
    eventually_within(SESSION, || "the end".to_owned(), || ended.exists());
    running.signal(Signal::KILL);
    running.end();
    is_switched_off(&site);
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_signal_saves_a_drive_whose_command_ignores_being_hung_up() {
    let site = Site::new();
    let image = site.image();
    let command = "trap '' HUP INT; echo begun; while :; do sleep 1; done";
    let mut running = site.start(&[
        "connect",
        "demo",
        "--no-jupyter",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        command,
    ]);
    running.prints("begun\n");
    running.signal(Signal::TERM);
    running.end().is(143).reports("demo is saved");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_ends_at_its_limit_with_its_laptop_there() {
    let site = Site::new();
    let image = site.image();
    let command = "trap 'echo asked' TERM; echo begun; while :; do sleep 0.1; done";
    let limits = ["--no-jupyter", "--max", "10s", "--notice", "5s"];
    // The fault: that of another container than the main one got no SIGTERM.
    for (generation, place) in [(1, "demo"), (2, "demo/tools")] {
        let run = [&["run", place, "--image", &image][..], &limits].concat();
        let ended = site.run(&[&run[..], &["--", "sh", "-c", command]].concat());
        ended
            .is(124)
            .reports("the command has taken as long as --max allows, and gets SIGTERM")
            .reports("demo is saved");
        assert_eq!(ended.stdout, "begun\nasked\n", "{place}");
        site.is_saved("demo", generation);
    }
}

/// The fault: it ended with 255, and said nothing.
#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_whose_command_another_one_attaches_to_says_so() {
    let site = Site::new();
    let image = site.image();
    let mut first = site.start(&waiting(&["connect", "demo"], &image));
    first.prints("begun\n");
    let mut second = site.start(&["attach", "demo"]);
    second.prints("begun\n");
    first
        .end()
        .is(255)
        .reports("another xdrive is attached to the command, which goes on")
        .reports("xdrive --local attach demo takes it back")
        .reports("another session goes on with it");
    end(&site);
    let ended = second.end();
    ended.is(5).reports("demo is saved");
    assert_eq!(ended.stdout, "begun\nover\n");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_vanished_with_its_instance_is_lost_and_not_forgotten() {
    let site = Site::new();
    let image = site.image();
    let started = site.run(&waiting(&["run", "demo", "-d", "--json"], &image));
    let run = document("run", started.is(0))["run"]
        .as_str()
        .unwrap()
        .to_owned();
    kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
    site.run(&["stop", "demo"])
        .is(0)
        .reports("not closed by its last host");
    let next = ["run", "demo", "-d", "--no-jupyter", "--", "sleep", "600"];
    site.run(&next).is(0);
    let rows = document("ps", &site.run(&["ps", "demo", "--all", "--json"]));
    let row = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["run"] == *run);
    assert_eq!(row.unwrap()["state"], "lost", "{rows}");
    site.run(&["ps", "demo", "--all"]).is(0).prints("  lost  ");
    let logs = site.run(&["logs", "demo", "-f", &run]);
    assert_ne!(logs.code(), 0, "{logs:?}");
    logs.reports("its end is not on record");
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 2);
}
