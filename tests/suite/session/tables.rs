//! Output that is made to be looked at: the list in a terminal, prices over some days, and their
//! plot.

use std::fs;

use super::json::document;
use super::simulated::{count, paper, traced, with_snapshot, with_volume};
use super::site::SESSION;

#[test]
fn a_terminal_gets_a_line_a_drive_and_anything_else_every_part() {
    let site = paper();
    let snapshot = with_snapshot(&site, &[]);
    let piped = site.run(&["list"]);
    piped
        .is(0)
        .prints("demo   saved, generation 1, at most $0.40 a month\n");

    let mut pty = site.in_terminal(&["list"]);
    pty.see_within(SESSION, "$0.40");
    assert_eq!(pty.wait_within(SESSION), 0);
    let shown = pty.contents();
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let head = "drive  state  where       gen   size    age  a month  an hour";
    assert_eq!(lines[0], head, "{shown}");
    let row = "demo   saved  1 snapshot    1  8 GiB  0 min    $0.40";
    assert_eq!(lines[1], row, "{shown}");
    assert!(!shown.contains(snapshot.as_str()), "{shown}");

    // A state has a colour where it says that something is to be done, or under way.
    let yellow = "\x1b[33mvolume\x1b[0m";
    with_volume(&site, "us-east-1a", &[("xdrive:generation", "2")]);
    for (flags, count) in [(&[][..], 1), (&["-v"], 1), (&["--color", "never"], 0)] {
        let mut pty = site.in_terminal(&[&["list"], flags].concat());
        pty.see_within(SESSION, "volume");
        assert_eq!(pty.wait_within(SESSION), 0);
        assert_eq!(pty.sent(yellow), count, "{}", pty.contents());
    }

    let mut pty = site.in_terminal(&["list", "-v"]);
    pty.see_within(SESSION, snapshot.as_str());
    assert_eq!(pty.wait_within(SESSION), 0);
}

#[test]
fn a_drive_with_a_past_says_how_to_go_back() {
    let site = paper();
    with_snapshot(&site, &[]);
    let back = "connect demo --from SNAPSHOT";
    let alone = site.run(&["list", "-v", "demo"]);
    assert!(!alone.is(0).stdout.contains(back), "{}", alone.stdout);
    with_snapshot(&site, &[("xdrive:generation", "2")]);
    site.run(&["list", "-v", "demo"]).is(0).prints(back);
}

#[test]
fn prices_have_a_past_that_comes_in_pages() {
    let site = paper();
    let ended = traced(&site, &["prices", "t3.medium", "--days", "90", "--json"]);
    ended.is(0);
    // Those in force, and two pages of the past: 90 days of three zones, four a day.
    assert_eq!(count(&ended, "DescribeSpotPriceHistory"), 3);
    let pools = document("prices", &ended);
    let pools = pools.as_array().unwrap();
    assert_eq!(pools.len(), 3);
    for pool in pools {
        let history = &pool["history"];
        let changes = history["changes"].as_array().unwrap();
        assert!((360..=361).contains(&changes.len()), "{}", changes.len());
        let price = |name: &str| history[name].as_f64().unwrap();
        assert!(price("low") < price("median"), "{history}");
        assert!(price("median") < price("high"), "{history}");
        let last = changes.last().unwrap();
        assert_eq!(last["spot_dollars_an_hour"], pool["spot_dollars_an_hour"]);
    }
}

#[test]
fn prices_of_some_days_are_lines_and_a_plot() {
    let site = paper();
    let plot = site.path("prices.svg");
    let words = ["prices", "t3.medium", "--svg", plot.to_str().unwrap()];
    let ended = site.run(&words);
    ended.is(0).prints("the last 30 days");
    let blocks = |line: &str| line.chars().filter(|c| ('▁'..='█').contains(c)).count();
    for zone in ["us-east-1a", "us-east-1b", "us-east-1c"] {
        let mut lines = ended.stdout.lines();
        let line = lines.find(|line| line.contains(zone)).unwrap();
        assert!(blocks(line) >= 16, "{line}");
        assert_eq!(line.matches('$').count(), 3, "low, median, high: {line}");
        assert!(line.chars().count() <= 80, "{line}");
    }
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg "), "{svg}");
    assert!(svg.contains("t3.medium us-east-1c"), "{svg}");

    let nowhere = site.path("no-folder/prices.svg");
    let words = ["prices", "t3.medium", "--svg", nowhere.to_str().unwrap()];
    site.run(&words).is(1).reports("cannot write ");
    for days in ["0", "91", "month"] {
        site.run(&["prices", "--days", days]).is(2);
    }
}
