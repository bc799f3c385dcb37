//! Runs that go on with every laptop gone: `run -d --restart`, and `tend` on another machine.

mod again;
mod others;
mod wide;

use std::fs;

use harness::cloud;
use harness::eventually_within;
use harness::evidence::may_terminate;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use xdrive::ec2::LaunchOrder;

use super::connection_lost::recorded;
use super::json::document;
use super::simulated::in_the_cloud;
use super::site::{SESSION, Site};

/// Writes the number of its try, and a line every so many seconds, until there are so many and `end`
/// is asked for; then ends well.
fn counting(lines: u32, pause: f64) -> String {
    format!(
        "echo $XDRIVE_TRY >>/work/tries; while set -- $(cat /work/lines 2>/dev/null); \
         [ $# -lt {lines} ] || [ ! -e /work/end ]; \
         do echo $XDRIVE_TRY >>/work/lines; sync; sleep {pause}; done; echo over"
    )
}

/// Has the run end well.
fn end(site: &Site) {
    let init = recorded(site, "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/end"), "").unwrap();
}

/// Starts a run on `demo` that is begun again wherever it is tended, and leaves it.
fn start(site: &Site, command: &str) -> String {
    let image = site.image();
    let run = ["run", "demo", "-d", "--restart", "--json", "--no-jupyter"];
    let spot = ["--fallback", "none", "--image", &image];
    let started = site.run(&[&run[..], &spot, &["--", "sh", "-c", command]].concat());
    started.is(0).reports("xdrive --local tend");
    let run = document("run", &started);
    run["run"].as_str().unwrap().to_owned()
}

/// Waits until the try of this number has written a line on the host of `demo`.
fn is_at_try(site: &Site, number: u32) {
    let words = ["cat", "demo:lines"];
    let is_there = || {
        let shown = site.run(&words).stdout;
        shown.lines().last() == Some(&number.to_string())
    };
    eventually_within(SESSION, || format!("try {number}"), is_there);
}

/// Waits until `demo` has no instance.
fn is_gone(site: &Site) {
    let is_gone = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(SESSION, || "no instance".to_owned(), is_gone);
}

/// Launches one more instance for `demo` and ends it, as a session does that finds that another one was
/// there first.
fn lose(site: &Site) {
    let order = LaunchOrder {
        tags: cloud::tags(&[
            ("xdrive:drive", "demo"),
            ("xdrive:session", "another one"),
            ("xdrive:owner", "arn:aws:iam::000000000000:user/local"),
        ]),
        ..cloud::launch_order("late")
    };
    in_the_cloud(site, async |ec2| {
        let late = ec2.launch(&order).await.unwrap().id;
        ec2.terminate(may_terminate(&late)).await.unwrap();
    });
    eventually_within(
        SESSION,
        || "one instance".to_owned(),
        || {
            let kinds = site.kinds("demo");
            kinds.iter().filter(|kind| *kind == "instance").count() == 1
        },
    );
}

/// The row of the only run of `demo`.
fn only_run(site: &Site) -> Value {
    let rows = document("ps", &site.run(&["ps", "demo", "--all", "--json"]));
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    rows[0].clone()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn each_try_of_a_run_begins_once_wherever_it_is_tended() {
    let site = Site::new();
    let id = start(&site, &counting(1, 0.2));
    is_at_try(&site, 1);
    // While its host is there nothing is to be done.
    let tender = site.other_laptop();
    tender.run(&["tend", "--once"]).is(0);
    // EC2's notice, and an instance that is gone without a word.
    site.interrupt("demo", 10);
    is_gone(&site);
    let waiting = site.run(&["ps", "demo"]);
    waiting
        .is(0)
        .prints("demo is not up")
        .prints(&format!("  {id}  waits for its next try; tended "));
    let [one, other] = [&site, &tender].map(|laptop| laptop.start(&["tend", "--once"]));
    let codes = [one.end(), other.end()].map(|ended| ended.code());
    assert!(codes.contains(&0), "{codes:?}");
    is_at_try(&site, 2);
    // Of two that begin at once one instance has to go, and the other one's end is the run's.
    lose(&site);
    kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
    is_gone(&site);
    tender
        .run(&["tend", "--once"])
        .is(0)
        .reports(&format!("demo: the run {id} goes on"));
    is_at_try(&site, 3);
    end(&site);
    // It ends well, and its host switches itself off.
    is_gone(&site);
    tender
        .run(&["tend", "--once"])
        .is(0)
        .reports(&format!("demo: the run {id} is done (exit code 0)"));
    let run = only_run(&site);
    assert_eq!(run["run"], *id, "{run}");
    assert_eq!(run["try"], 3, "{run}");
    assert_eq!(run["state"], "ended", "{run}");
    let tries = site.run(&["cat", "demo:tries"]);
    assert_eq!(tries.is(0).stdout, "1\n2\n3\n");
    let kinds = site.kinds("demo");
    assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
    // A run that is over is not begun again.
    tender.run(&["tend", "--once"]).is(0);
    assert_eq!(site.kinds("demo"), kinds);
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_was_stopped_is_not_wanted_any_more() {
    let site = Site::new();
    let id = start(&site, &counting(1, 0.2));
    is_at_try(&site, 1);
    site.interrupt("demo", 0);
    is_gone(&site);
    // Who comes meanwhile, and goes, does not end it.
    let visit = site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    visit.is(0).reports("demo is saved");
    site.run(&["tend", "--once"]).is(0);
    is_at_try(&site, 2);
    site.interrupt("demo", 0);
    is_gone(&site);
    site.run(&["stop", "demo"]).is(0);
    let waiting = site.run(&["ps", "demo"]);
    assert!(!waiting.is(0).stdout.contains(&id), "{waiting:?}");
    let tended = site.run(&["tend", "--once"]);
    assert_eq!(tended.is(0).stderr, "");
    site.is_saved("demo", 2);
    for words in [&["-e", "A=1"][..], &["--max", "61d"]] {
        let run = ["run", "demo", "-d", "--restart"];
        let refused = site.run(&[&run[..], words, &["--", "true"]].concat());
        refused.is(2);
    }
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_fails_by_itself_is_not_begun_again() {
    let site = Site::new();
    let id = start(&site, "echo $XDRIVE_TRY $XDRIVE_RUN; exit 3");
    is_gone(&site);
    let tended = site.run(&["tend", "--once"]);
    tended
        .is(0)
        .reports(&format!("demo: the run {id} is failed (exit code 3)"));
    let logs = site.run(&["logs", "demo"]);
    assert_eq!(logs.is(0).stdout, format!("1 {id}\n"));
    site.is_saved("demo", 1);
}
