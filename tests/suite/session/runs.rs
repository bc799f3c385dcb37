//! Commands that need no session to go on: `run`, `attach`, `logs` and `ps`.

mod wide;

use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use super::connection_lost::recorded;
use super::json::document;
use super::simulated::in_the_cloud;
use super::site::{SESSION, Site};
use harness::{DEADLINE, eventually_within};

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
    let rows = || document("ps", &site.run(&["ps", "demo", "--json"]));
    eventually_within(
        DEADLINE,
        || rows().to_string(),
        || rows()[0]["last"] == "begun",
    );
    let rows = rows();
    assert_eq!(rows[0]["run"], run["run"], "{rows}");
    assert_eq!(rows[0]["state"], "running", "{rows}");
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
    // On record they are as they were listed by their host.
    site.run(&["ps", "demo"])
        .is(0)
        .prints("demo is not up; --all");
    let rows = document("ps", &site.run(&["ps", "demo", "--all", "--json"]));
    let mut as_listed = first.clone();
    as_listed["instance"] = Value::Null;
    as_listed["dollars_so_far"] = Value::Null;
    assert_eq!(rows[0], as_listed, "{rows}");
    assert_eq!(rows[1]["state"], "ended", "{rows}");
    assert_eq!(rows[1]["closing"], "a session saves it", "{rows}");
    let of_the_first = site.run(&["logs", "demo", id, "-f"]);
    assert_eq!(of_the_first.is(0).stdout, "begun\nover\n");
    of_the_first.reports("aside\n").reports(" cents");
    site.has_no_leaks();
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
    listed.is(0).prints("  running, try 2  ");
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
        (&["--tries", "2"][..], "--restart"),
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
