//! Budgets, which hosts keep: with every xdrive dead, over the tries of a run, and never without a price.

use std::time::Duration;

use harness::eventually_within;
use rustix::process::Signal;

use super::json::document;
use super::simulated::paper;
use super::site::{SESSION, Site};

/// A type that takes two cents in 71 seconds on demand.
const DEAR: [&str; 4] = ["--type", "g5.xlarge", "--on-demand", "--no-jupyter"];

/// How long a host of that type may take for the budgets here, and to close the drive.
const OVER: Duration = Duration::from_mins(3);

/// Waits until `demo` is a volume without an instance.
fn is_closed(site: &Site) {
    let is_over = || site.drive("demo")["state"] == "volume";
    eventually_within(OVER, || site.drive("demo").to_string(), is_over);
}

/// The seconds that a line says a budget lasts.
#[track_caller]
fn lasts(text: &str) -> u64 {
    let line = text.lines().rfind(|line| line.contains(" lasts "));
    let line = line.unwrap_or_else(|| panic!("no budget: {text}"));
    let (_, rest) = line.split_once(" lasts ").unwrap();
    let mut words = rest.split(' ');
    let number: u64 = words.next().unwrap().parse().unwrap();
    match words.next().unwrap() {
        "s" => number,
        "min" => 60 * number,
        unit => panic!("{unit}: {line}"),
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_closes_once_its_budget_is_spent_with_every_xdrive_dead() {
    let site = Site::new();
    let image = site.image();
    let what = ["connect", "demo", "--budget", "0.02", "--image", &image];
    let command = [
        "--",
        "sh",
        "-c",
        "echo kept >/work/note; sync; echo up; sleep 600",
    ];
    let mut session = site.start(&[&what[..], &DEAR, &command].concat());
    session.prints("up\n");
    session.signal(Signal::KILL);
    session.end();
    is_closed(&site);
    let stopped = site.run(&["stop", "demo"]);
    stopped.is(0).reports("demo is saved");
    let bill = site.local().bill("demo").unwrap();
    // The volume waited for `stop`.
    let most = 0.02 + bill.disks;
    let taken = bill.instances + bill.addresses;
    assert!(taken < most + 0.012, "{bill:?}");
    assert_eq!(site.run(&["cat", "demo:note"]).is(0).stdout, "kept\n");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_ends_with_the_reason_once_its_budget_is_spent() {
    let site = Site::new();
    let image = site.image();
    let what = ["connect", "demo", "--budget", "0.02", "--image", &image];
    let ended = site.run(&[&what[..], &DEAR, &["--", "sleep", "600"]].concat());
    ended.reports("the budget of $0.02 is spent");
    assert!((1..=71).contains(&lasts(&ended.stderr)), "{}", ended.stderr);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_ends_as_at_the_end_of_its_time_and_is_not_begun_again() {
    let site = Site::new();
    let image = site.image();
    let what = [
        "run",
        "demo",
        "--budget",
        "0.02",
        "--notice",
        "10s",
        "--restart",
    ];
    let command = ["--image", &image, "--", "sleep", "600"];
    let ended = site.run(&[&what[..], &DEAR, &command].concat());
    ended
        .is(124)
        .reports("the command has taken as long as --budget allows, and gets SIGTERM");
    site.is_saved("demo", 1);
    let tended = site.run(&["tend", "--once"]);
    assert!(!tended.is(0).stderr.contains("demo"), "{}", tended.stderr);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_next_host_has_what_the_former_ones_have_left() {
    let site = Site::new();
    let image = site.image();
    let what = [
        "connect", "demo", "--resume", "--budget", "0.1", "--image", &image,
    ];
    let mut pty = site.in_terminal(&[&what[..], &["--type", "g5.xlarge", "--no-jupyter"]].concat());
    pty.see_within(SESSION, "the budget of $0.10 lasts ");
    pty.see_within(SESSION, "# ");
    let first = lasts(&pty.contents());
    pty.type_in("clear; echo on$((1+1))\r");
    pty.see_within(SESSION, "on2");
    site.interrupt("demo", 120);
    let is_said_again = || pty.sent("the budget of $0.10 lasts ") == 2;
    eventually_within(SESSION, || pty.contents(), is_said_again);
    let second = lasts(&pty.contents());
    // What was up, and the two minutes in which a former host may go on.
    assert!(second + 120 <= first, "{first} s, then {second} s");
    pty.see_within(SESSION, "# ");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 2);
}

#[test]
fn without_a_price_or_a_bid_nothing_is_launched() {
    let site = Site::new();
    let policy = site.run(&["policy"]).is(0).stdout.clone();
    let policy = policy.replace("pricing:GetProducts", "ec2:DescribeVpcs");
    site.set(&format!("plane = \"paper\"\npolicy = '''{policy}'''\n"));
    let what = ["connect", "demo", "--budget", "5", "--on-demand"];
    let ended = site.run(&[&what[..], &["--type", "m5.large", "--", "true"]].concat());
    ended
        .is(2)
        .reports("the price of m5.large on demand")
        .reports("is not known, and so no budget can be kept")
        .reports("--max-price");
    assert_eq!(site.kinds("demo"), [""; 0]);
    for (amount, why) in [
        ("0", "a budget is a cent at least"),
        ("five", "it is not a number"),
    ] {
        let what = ["connect", "demo", "--budget", amount, "--", "true"];
        site.run(&what).is(2).reports(why);
    }
}

#[test]
fn a_dry_run_says_how_long_a_budget_lasts_on_the_first_offer() {
    let site = paper();
    let what = ["connect", "demo", "--budget", "5", "--dry-run"];
    // A fifth more than the price of now, and $0.009 for address and disks.
    site.run(&what)
        .is(0)
        .prints("the budget of $5.00 lasts 136 h on the first of these\n");
    let bid = [&what[..], &["--max-price", "1", "--json"]].concat();
    let plan = document("dry-run", site.run(&bid).is(0));
    assert_eq!(plan["budget_seconds"], 17_839, "{plan}");
    // Each of its vCPUs may cost $0.05 an hour more.
    let bursts = [&what[..], &["--type", "t3.medium"]].concat();
    site.run(&bursts)
        .is(0)
        .prints("the budget of $5.00 lasts 40 h on the first of these\n");
}
