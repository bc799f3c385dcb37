//! Commands that are frozen with their drive, and go on on its next instance: `--freeze`.

mod mounts;
mod notebook;
mod shell;
mod wide;

use std::fs;

use serde_json::Value;

use super::connection_lost::recorded;
use super::json::document;
use super::site::{Ended, SESSION, Site};
use harness::{Pty, eventually_within};

/// Counts in its own memory until it is asked to end, then ends with 37; each step is a line.
const COUNTING: &str = "n=0; while [ ! -e /work/end ]; do n=$((n + 1)); echo $n; sleep 0.05; done; \
                        echo over $XDRIVE_TRY; exit 37";

/// Has EC2 take the instance of `demo`; waits until `what` was frozen there, and goes on on another one.
fn is_taken(site: &Site, pty: &Pty, what: &str) {
    site.interrupt("demo", 120);
    pty.see_within(SESSION, &format!("froze {what} ("));
    let goes_on = || {
        let shown = pty.contents();
        let after = shown.rsplit_once("goes on on another instance");
        after.is_some_and(|(_, after)| after.contains(&format!("{what} goes on where it was")))
    };
    eventually_within(SESSION, || pty.contents(), goes_on);
}

/// Begins the counting on `demo` with these words, and `--freeze`.
fn words<'a>(verb: &[&'a str], image: &'a str) -> Vec<&'a str> {
    let rest = [
        "--freeze",
        "--no-jupyter",
        "--fallback",
        "none",
        "--image",
        image,
    ];
    [verb, &rest, &["--", "sh", "-c", COUNTING]].concat()
}

/// Has the counting end.
fn end(site: &Site) {
    let init = recorded(site, "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/end"), "").unwrap();
}

/// The numbers that were printed, which follow each other without a gap; and the line behind them.
fn numbers(printed: &str) -> (usize, &str) {
    let lines: Vec<&str> = printed.lines().collect();
    let (last, lines) = lines.split_last().unwrap();
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(*line, (index + 1).to_string(), "{printed}");
    }
    (lines.len(), last)
}

/// The output of the run of `demo` so far.
fn printed(site: &Site) -> String {
    site.run(&["logs", "demo"]).stdout
}

/// Waits until the run of `demo` has printed so many lines.
fn has_printed(site: &Site, lines: usize) {
    let is_there = || printed(site).lines().count() >= lines;
    eventually_within(SESSION, || format!("{lines} lines"), is_there);
}

fn is_gone(site: &Site) {
    let is_gone = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(SESSION, || "no instance".to_owned(), is_gone);
}

/// The row of the only run of `demo`.
fn only_run(site: &Site) -> Value {
    let rows = document("ps", &site.run(&["ps", "demo", "--all", "--json"]));
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    rows[0].clone()
}

fn went_on(ended: &Ended) {
    ended.reports("goes on where it was");
    assert!(!ended.stderr.contains("started again"), "{}", ended.stderr);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn a_command_goes_on_where_it_was_when_its_instance_is_taken() {
    let site = Site::new();
    let image = site.image();
    let run = ["run", "demo", "--restart", "--budget", "5"];
    let mut running = site.start(&words(&run, &image));
    running.prints("\n20\n");
    let listed = only_run(&site);
    let freezing = listed["freezing"].as_str().unwrap_or_default();
    assert!(freezing.starts_with("in about 0 s of 28"), "{listed}");
    site.interrupt("demo", 120);
    running.reports("goes on where it was");
    let at = printed(&site).lines().count();
    running.prints(&format!("\n{}\n", at + 20));
    end(&site);
    let ended = running.end();
    ended.is(37).reports("froze sh -c").reports("MiB) in");
    went_on(&ended);
    let (count, last) = numbers(&ended.stdout);
    assert!(count >= at + 20, "{}", ended.stdout);
    assert_eq!(last, "over 1", "{}", ended.stderr);
    // Each host keeps what is left of the budget.
    let kept = ended.stderr.matches("the budget of $5.00 lasts ").count();
    assert_eq!(kept, 2, "{}", ended.stderr);
    site.is_saved("demo", 2);
    assert_eq!(only_run(&site)["try"], 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_was_frozen_by_its_user_goes_on_with_the_next_connect_and_never_on_a_fork() {
    let site = Site::new();
    let image = site.image();
    let begun = site.run(&words(&["run", "demo", "-d"], &image));
    begun.is(0);
    has_printed(&site, 20);
    let frozen = site.run(&["freeze", "demo"]);
    frozen.is(0).reports("froze sh -c").reports("demo is saved");
    site.is_saved("demo", 1);
    let asleep = only_run(&site);
    assert_eq!(
        (&asleep["state"], &asleep["status"]),
        (&"frozen".into(), &Value::Null)
    );
    let at = numbers(&(printed(&site) + "end")).0;
    assert!(at >= 20, "{at}");

    site.run(&["fork", "demo", "other"]).is(0);
    let connect = |name| site.run(&["connect", name, "--no-jupyter", "--", "true"]);
    let other = connect("other");
    other
        .is(0)
        .reports("what is frozen on a copy does not go on, and is removed");

    let mut session = site.start(&[
        "connect",
        "demo",
        "--no-jupyter",
        "--",
        "sh",
        "-c",
        "read line",
    ]);
    session.reports("goes on where it was");
    has_printed(&site, at + 20);
    end(&site);
    let over = || only_run(&site)["status"] == 37;
    eventually_within(SESSION, || "its end".to_owned(), over);
    let all = printed(&site);
    let (count, last) = numbers(&all);
    assert!(count >= at + 20 && last == "over", "{count} {last}");
    session.end();
    // Nothing is thawed twice.
    let again = connect("demo");
    again.is(0);
    assert!(!again.stderr.contains("goes on where"), "{}", again.stderr);
    for drive in ["demo", "other"] {
        let frozen = site.run(&["ls", &format!("{drive}:/v1/xdrive/frozen")]);
        assert_eq!(frozen.stdout, "", "{drive}");
    }
}
