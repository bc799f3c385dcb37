//! Commands that need no session to go on: `run`, `attach`, `logs` and `ps`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Signal, kill_process};

use super::connection_lost::{connections, errors, numbers, recorded};
use super::json::document;
use super::simulated::in_the_cloud;
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

/// Waits until the host has switched itself off.
fn is_switched_off(site: &Site) {
    let is_off = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(OFF, || "no instance".to_owned(), is_off);
}

/// The words of `verb` that has the waiting command run on the drive.
fn waiting<'a>(verb: &[&'a str], image: &'a str) -> Vec<&'a str> {
    let options = ["--no-jupyter", "--image", image, "--", "sh", "-c", WAITING];
    [verb, &options].concat()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_that_was_left_with_an_escape_is_come_back_to() {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&waiting(&["connect", "demo"], &image));
    pty.see_within(SESSION, "begun");
    pty.type_in("~d\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    pty.see("until its command has ended");
    pty.see("xdrive --local attach demo  comes back to it");
    // Whoever comes and goes meanwhile leaves it alone.
    let visit = site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    visit.is(0).reports("another session goes on with it");
    let listed = site.run(&["ps"]);
    listed.is(0).prints("demo on ").prints("  running  ");
    listed
        .prints("until [ -e /work/end ]")
        .prints("    > begun");
    let logs = site.run(&["logs", "demo"]);
    assert_eq!(logs.is(0).stdout, "begun\n");
    logs.reports("aside\n");
    let unknown = site.run(&["attach", "demo", "zz"]);
    unknown.is(69).reports("xdrive --local ps demo lists them");
    end(&site);
    let attached = site.run(&["attach", "demo"]);
    attached.is(5).reports("demo is saved");
    assert_eq!(attached.stdout, "begun\nover\n");
    site.is_saved("demo", 1);
    let nothing = site.run(&["attach", "demo"]);
    nothing.is(69).reports("demo is not up: nothing runs on it");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_keeps_its_host_and_no_client_ends_it_by_leaving() {
    let site = Site::new();
    let image = site.image();
    let started = site.run(&waiting(&["run", "demo", "-d", "--json"], &image));
    started
        .is(0)
        .reports("until its command has ended")
        .reports("xdrive --local logs demo -f");
    let run = document("run", &started);
    assert_eq!(run["drive"], "demo", "{run}");
    let rows = document("ps", &site.run(&["ps", "demo", "--json"]));
    assert_eq!(rows[0]["run"], run["run"], "{rows}");
    assert_eq!(rows[0]["state"], "running", "{rows}");
    assert_eq!(rows[0]["last"], "begun", "{rows}");
    // Whoever comes and goes meanwhile leaves it alone.
    let visit = site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    visit.is(0).reports("another session goes on with it");
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
    is_switched_off(&site);
    let image_is_kept = site.run(&["run", "demo", "-d", "--no-jupyter", "--", "sleep", "600"]);
    image_is_kept.is(0);
    let rows = document("ps", &site.run(&["ps", "demo", "--all", "--json"]));
    let [first, second] = &rows.as_array().unwrap()[..] else {
        panic!("{rows}");
    };
    assert_eq!(first["status"], 5, "{rows}");
    assert_eq!(first["last"], "over", "{rows}");
    assert_eq!(second["state"], "running", "{rows}");
    let id = first["run"].as_str().unwrap();
    let of_the_first = site.run(&["logs", "demo", id]);
    assert_eq!(of_the_first.is(0).stdout, "begun\nover\n");
    site.run(&["attach", "demo", id])
        .is(69)
        .reports(&format!("error: the command {id} on demo has ended"))
        .reports(&format!("hint: xdrive --local logs demo {id} shows"));
    site.run(&["stop", "demo"]).is(0);
    site.has_no_leaks();
}

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
    run.is(3).reports("demo is saved");
    assert_eq!(run.stdout, "here\n");
    site.is_saved("demo", 1);
    let nothing = site.run(&["run", "demo"]);
    nothing.is(2).reports("xdrive --local run demo -d -- CMD…");
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

/// Counts its runs, and goes on from the checkpoint of the one before. For that it takes longer than
/// programs have otherwise. The third run ends well.
const TRAINING: &str = "echo run >>/work/runs; sync; set -- $(cat /work/runs); \
                        trap 'sleep 8; echo $XDRIVE_NOTICE >/work/checkpoint; exit $((3 - $#))' TERM; \
                        echo run-$#-$(cat /work/checkpoint 2>/dev/null); \
                        while :; do sleep 0.1; done";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_has_time_for_a_checkpoint_and_is_started_again_until_it_ends_well() {
    let site = Site::new();
    let image = site.image();
    let run = ["run", "demo", "--restart", "--notice", "20s"];
    let spot = ["--fallback", "none", "--no-jupyter", "--image", &image];
    let mut running = site.start(&[&run[..], &spot, &["--", "sh", "-c", TRAINING]].concat());
    running.prints("run-1-\n");
    site.interrupt("demo", 120);
    running.reports("the command is asked to end within 20 s");
    running.reports("the command is started again, and 2 more times at most");
    running.prints("run-2-20\n");
    let listed = site.run(&["ps", "demo", "--all"]);
    listed
        .is(0)
        .prints("    its host was closing: EC2 takes the machine: terminate ");
    // Gone without a word.
    site.interrupt("demo", 0);
    running.reports("the command is started again, and 1 more times at most");
    running.prints("run-3-20\n");
    // Less than the run asks for.
    site.interrupt("demo", 69);
    let ended = running.end();
    ended.is(0).reports("demo is saved: its snapshot (snap-");
    let printed = ended.stderr.split("the command is asked to end within ");
    let seconds = printed.skip(1).map(|rest| rest.split(' ').next().unwrap());
    let seconds: Vec<u64> = seconds.map(|seconds| seconds.parse().unwrap()).collect();
    // The status of the spot request, which may be read first, has no time.
    assert!(
        matches!(seconds[..], [20, .., 5..=20]),
        "{seconds:?}\n{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "run-1-\nrun-2-20\nrun-3-20\n");
    for (words, error) in [
        (&["--restart", "-d"][..], "cannot be used with"),
        (&["--tries", "2"], "--restart"),
        (
            &["--notice", "5m"],
            "a command has to end in 5s at least and 1m at most",
        ),
        (&["--restart", "--tries", "0"], "from 1 to 1000"),
    ] {
        let refused = site.run(&[&["run", "demo"][..], words, &["--", "true"]].concat());
        refused.is(2).reports(error);
    }
    site.is_saved("demo", 3);
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
fn a_command_outlives_its_laptop_and_is_taken_up_on_another() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&waiting(&["connect", "demo"], &image));
    running.reports("goes on without this computer, 8 h at most (--keep): xdrive --local attach");
    running.prints("begun\n");
    // Once it has run for a moment.
    is_kept_for_hours(&site);
    running.signal(Signal::KILL);
    running.end();
    // The host has the command as a client in place of its laptop.
    let visit = || site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    let init = recorded(&site, "init.json").as_raw_nonzero();
    let clients = format!("/proc/{init}/root/run/xdrive/clients");
    let is_client = || {
        let names = fs::read_dir(&clients).unwrap();
        names
            .map(|name| name.unwrap().file_name())
            .any(|name| name.to_str().unwrap().starts_with("run-"))
    };
    eventually_within(SESSION, || "a client".to_owned(), is_client);
    visit().is(0).reports("another session goes on with it");
    site.run(&["ps", "demo"]).is(0).prints("  running  ");
    end(&site);
    let attached = site.run(&["attach", "demo"]);
    attached.is(5).reports("demo is saved");
    assert_eq!(attached.stdout, "begun\nover\n");
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

/// Waits until the host is kept as long as after `~d`.
pub(super) fn is_kept_for_hours(site: &Site) {
    let is_kept = || until(site).duration_since(Timestamp::now()).as_hours() >= 7;
    eventually_within(SESSION, || until(site).to_string(), is_kept);
}

/// The end of the lease that the only instance's tag has.
fn until(site: &Site) -> Timestamp {
    let (instances, _, _) = in_the_cloud(site, async |ec2| ec2.everything().await.unwrap());
    let tags = instances
        .iter()
        .filter_map(|instance| instance.tags.get("xdrive:until"));
    tags.map(|until| until.parse().unwrap()).max().unwrap()
}
