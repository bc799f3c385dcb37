//! The cost that a session says at its end, held to the bill of the EC2 in a folder, which other code counts.

use super::json::document;
use super::site::{Ended, SESSION, Site};

/// How far the two may be apart, in dollars.
const CLOSE: f64 = 0.0001;

impl Site {
    /// The dollars in a line of costs, which are the bill's.
    #[track_caller]
    fn costs(&self, drive: &str, line: &str) -> f64 {
        let (_, rest) = line
            .split_once("cost: about $")
            .unwrap_or_else(|| panic!("{line}"));
        let dollars: f64 = rest.split(':').next().unwrap().parse().unwrap();
        let bill = self.local().bill(drive).unwrap();
        assert!(
            (dollars - bill).abs() < CLOSE,
            "billed are ${bill:.6}: {line}"
        );
        dollars
    }

    /// The line of costs of a session that has ended.
    #[track_caller]
    fn costs_of(&self, drive: &str, ended: &Ended) -> String {
        let line = ended.stderr.lines().find(|line| line.starts_with("cost: "));
        let line = line.unwrap_or_else(|| panic!("no costs: {}", ended.stderr));
        self.costs(drive, line);
        line.to_owned()
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_says_at_its_end_what_it_has_cost() {
    let site = Site::new();
    let image = site.image();
    let session = |drive: &str, flags: &[&str], command: &[&str]| {
        let words = ["connect", drive, "--image", &image];
        site.run(&[&words[..], flags, &["--"], command].concat())
    };
    let spot = session("spot", &[], &["true"]);
    let line = site.costs_of("spot", spot.is(0));
    assert!(line.contains(" spot 1 min $0.000"), "{line}");
    assert!(line.contains("; kept: "), "{line}");
    let speed = ["--on-demand", "--throughput", "500", "--iops", "4000"];
    let dear = session("dear", &speed, &["sh", "-c", "exit 1"]);
    let line = site.costs_of("dear", dear.is(1));
    assert!(line.contains("on-demand"), "{line}");
    // What is thrown away has cost as much.
    let discard = ["--discard", "--yes"];
    let thrown = session("spot", &discard, &["true"]);
    assert!(
        thrown.is(0).stderr.contains("cost: about $"),
        "{}",
        thrown.stderr
    );
    // Nothing was over, and nothing is said.
    let run = ["run", "run", "-d", "--image", &image, "--", "sleep", "600"];
    assert!(!site.run(&run).is(0).stderr.contains("cost: "));
    let guest = site.run(&["connect", "run", "--", "true"]);
    assert!(!guest.is(0).stderr.contains("cost: "), "{}", guest.stderr);
    let stopped = site.run(&["stop", "run", "--json"]);
    let json = document("stop", stopped.is(0));
    let dollars = json["cost"]["dollars"].as_f64().unwrap();
    let bill = site.local().bill("run").unwrap();
    assert!(
        (dollars - bill).abs() < CLOSE,
        "billed are ${bill:.6}: {json}"
    );
    assert_eq!(json["cost"]["instances"][0]["market"], "spot", "{json}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn hosts_that_ec2_took_are_in_what_it_has_cost_as_ec2_bills_them() {
    let site = Site::new();
    let image = site.image();
    for (drive, seconds) in [("noticed", 120), ("cut", 0)] {
        let words = ["connect", drive, "--image", &image, "--resume"];
        let mut pty = site.in_terminal(&words);
        pty.see_within(SESSION, "bash-");
        site.interrupt(drive, seconds);
        pty.see_within(SESSION, "goes on on another instance");
        pty.type_in("echo on$((1+1))\r");
        pty.see_within(SESSION, "on2");
        pty.type_in("exit\r");
        assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
        let shown = pty.contents();
        let line = shown.lines().find(|line| line.starts_with("cost: "));
        site.costs(drive, line.unwrap_or_else(|| panic!("{shown}")));
    }
}
