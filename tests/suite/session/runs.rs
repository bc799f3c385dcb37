//! Commands that need no session to go on: `run`, `attach`, `logs` and `ps`.

use std::fs;
use std::time::Duration;

use super::connection_lost::recorded;
use super::json::document;
use super::site::{SESSION, Site};
use harness::eventually_within;

/// A command that ends with 5 on request.
const WAITING: &str = "echo begun; echo aside >&2; until [ -e /work/end ]; do sleep 0.1; done; \
                       rm /work/end; echo over; exit 5";

fn end(site: &Site) {
    let init = recorded(site, "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/end"), "").unwrap();
}

/// How long a host may take to switch itself off after its last run: a minute, in which somebody
/// may come, and the close.
const OFF: Duration = Duration::from_mins(4);

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_that_was_left_with_an_escape_is_come_back_to() {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&[
        "connect",
        "demo",
        "--no-jupyter",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        WAITING,
    ]);
    pty.see_within(SESSION, "begun");
    pty.type_in("~d\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    pty.see("xdrive --local attach demo  comes back to it");
    let listed = site.run(&["ps"]);
    listed.is(0).prints("demo on ").prints("  running  ");
    listed
        .prints("until [ -e /work/end ]")
        .prints("    > begun");
    let logs = site.run(&["logs", "demo"]);
    assert_eq!(logs.is(0).stdout, "begun\n");
    logs.says("aside\n");
    let unknown = site.run(&["attach", "demo", "zz"]);
    unknown.is(69).says("xdrive --local ps demo lists them");
    end(&site);
    let attached = site.run(&["attach", "demo"]);
    attached.is(5).says("demo is saved");
    assert_eq!(attached.stdout, "begun\nover\n");
    site.is_saved("demo", 1);
    let nothing = site.run(&["attach", "demo"]);
    nothing.is(69).says("demo is not up: nothing runs on it");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_keeps_its_host_and_nobody_ends_it_by_leaving() {
    let site = Site::new();
    let image = site.image();
    let started = site.run(&[
        "run",
        "demo",
        "-d",
        "--no-jupyter",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        WAITING,
    ]);
    started
        .is(0)
        .says("until its command has ended")
        .says("xdrive --local logs demo -f");
    let rows = document("ps", &site.run(&["ps", "demo", "--json"]));
    assert_eq!(rows[0]["state"], "running", "{rows}");
    assert_eq!(rows[0]["last"], "begun", "{rows}");
    // Whoever comes and goes meanwhile leaves it alone.
    let visit = site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    visit.is(0).says("another session goes on with it");
    assert_eq!(site.drive("demo")["state"], "running");
    // The latest 50 records are kept.
    let init = recorded(&site, "init.json").as_raw_nonzero();
    let records = format!("/proc/{init}/root/v1/xdrive/runs");
    for number in 0..60 {
        fs::create_dir_all(format!("{records}/old-{number}")).unwrap();
    }
    let follower = site.start(&["logs", "demo", "-f"]);
    end(&site);
    let shown = follower.end();
    assert_eq!(shown.is(0).stdout, "begun\nover\n");
    let there = || fs::read_dir(&records).map_or(0, Iterator::count);
    eventually_within(SESSION, || there().to_string(), || there() == 50);
    let switched_off = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(OFF, || "no instance".to_owned(), switched_off);
    let image_is_kept = site.run(&["run", "demo", "-d", "--no-jupyter", "--", "sleep", "600"]);
    image_is_kept.is(0);
    let rows = document("ps", &site.run(&["ps", "demo", "--all", "--json"]));
    let [first, second] = &rows.as_array().unwrap()[..] else {
        panic!("{rows}");
    };
    assert_eq!(first["status"], 5, "{rows}");
    assert_eq!(first["last"], "over", "{rows}");
    assert_eq!(second["state"], "running", "{rows}");
    let of_the_first = site.run(&["logs", "demo", first["run"].as_str().unwrap()]);
    assert_eq!(of_the_first.is(0).stdout, "begun\nover\n");
    site.run(&["stop", "demo"]).is(0);
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_goes_on_when_its_terminal_is_closed() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&[
        "run",
        "demo",
        "--no-jupyter",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        WAITING,
    ]);
    running.prints("begun\n");
    running.signal(rustix::process::Signal::HUP);
    let left = running.end();
    left.is(0).says("until its command has ended");
    site.run(&["ps", "demo"]).is(0).prints("  running  ");
    end(&site);
    let attached = site.run(&["attach", "demo"]);
    attached.is(5).says("demo is saved");
    assert_eq!(attached.stdout, "begun\nover\n");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_is_waited_for_is_saved_after_its_end() {
    let site = Site::new();
    let image = site.image();
    let run = site.run(&[
        "run",
        "demo",
        "--no-jupyter",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        "echo here; exit 3",
    ]);
    run.is(3).says("demo is saved");
    assert_eq!(run.stdout, "here\n");
    site.is_saved("demo", 1);
    let nothing = site.run(&["run", "demo"]);
    nothing.is(2).says("xdrive --local run demo -d -- CMD…");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_is_over_before_its_laptop_leaves_keeps_no_host() {
    let site = Site::new();
    let image = site.image();
    let run = ["run", "demo", "-d", "--no-jupyter", "--image", &image];
    let started = site.run(&[&run[..], &["--", "true"]].concat());
    started.is(0).says("until its command has ended");
    let switched_off = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(OFF, || "no instance".to_owned(), switched_off);
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}
