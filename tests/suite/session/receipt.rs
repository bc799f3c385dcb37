//! The cost that a session says at its end, held to the bill of the EC2 in a folder, which other code counts.

use serde_json::Value;

use super::json::document;
use super::site::{Ended, SESSION, Site};
use harness::Pty;

/// How far a part and the bill's may be apart: EC2 is asked every few seconds, and the shortest time that is billed
/// is a minute.
const CLOSE: f64 = 0.05;

/// Whether a part is the bill's.
#[track_caller]
fn is(part: f64, billed: f64) {
    assert!(
        (part - billed).abs() <= CLOSE * billed,
        "${part:.6}, billed are ${billed:.6}"
    );
}

impl Site {
    /// Checks the dollars in a line of costs, which are the bill's.
    #[track_caller]
    fn costs(&self, drive: &str, line: &str) {
        let dollars = |before: &str| -> f64 {
            let (_, rest) = line
                .split_once(before)
                .unwrap_or_else(|| panic!("{before}: {line}"));
            rest.split([',', ';', '\n', ' '])
                .next()
                .unwrap()
                .parse()
                .unwrap()
        };
        let bill = self.local().bill(drive).unwrap();
        let shown = dollars("cost: about $");
        // Four digits are shown.
        assert!((shown - bill.sum()).abs() < 0.0001, "{bill:?}: {line}");
        assert!(
            (dollars("address $") - bill.addresses).abs() < 0.0001,
            "{bill:?}: {line}"
        );
        assert!(
            (dollars("disks $") - bill.disks).abs() < 0.0001,
            "{bill:?}: {line}"
        );
    }

    /// The line of costs of a session that has ended.
    #[track_caller]
    fn costs_of(&self, drive: &str, ended: &Ended) -> String {
        let start = ended.stderr.find("cost: ");
        let start = start.unwrap_or_else(|| panic!("no costs: {}", ended.stderr));
        let lines = &ended.stderr[start..];
        self.costs(drive, lines);
        lines.to_owned()
    }

    /// Stops a drive, and checks each part of what it has cost.
    #[track_caller]
    fn stops_at_cost(&self, drive: &str) -> Value {
        let json = document("stop", self.run(&["stop", drive, "--json"]).is(0));
        let bill = self.local().bill(drive).unwrap();
        let cost = &json["cost"];
        let own: f64 = cost["instances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["dollars"].as_f64().unwrap())
            .sum();
        is(own, bill.instances);
        is(cost["address_dollars"].as_f64().unwrap(), bill.addresses);
        is(cost["disks_dollars"].as_f64().unwrap(), bill.disks);
        is(cost["dollars"].as_f64().unwrap(), bill.sum());
        cost.clone()
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
    assert!(!line.contains("transfer"), "{line}");
    // 20 MB, at $0.09 a GB, and what SSH needs itself.
    let loud = session("loud", &[], &["head", "-c", "20000000", "/dev/zero"]);
    let lines = site.costs_of("loud", loud.is(0));
    assert!(
        lines.contains("\n  transfer out at most $0.0018 more\n"),
        "{lines}"
    );
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
    let cost = site.stops_at_cost("run");
    assert_eq!(cost["instances"][0]["market"], "spot", "{cost}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_without_a_public_address_pays_for_none() {
    let site = Site::with_settings("map-public-ip = false\ninternet-gateway = false\n");
    let image = site.image();
    let way = "bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'";
    site.configure(&format!(
        "cidr = \"10.99.0.1/32\"\nproxy_command = \"\"\"{way}\"\"\"\n"
    ));
    let run = ["run", "demo", "-d", "--image", &image];
    let on_demand = ["--on-demand", "--", "sleep", "600"];
    site.run(&[&run[..], &on_demand].concat()).is(0);
    let cost = site.stops_at_cost("demo");
    assert_eq!(cost["address_dollars"], 0.0, "{cost}");
    assert_eq!(cost["instances"][0]["market"], "on-demand", "{cost}");
}

/// A session of `drive` whose host EC2 takes in so many seconds; it goes on on another one, and ends there. Its
/// terminal then.
fn taken(site: &Site, drive: &str, seconds: u32) -> Pty {
    let image = site.image();
    let words = ["connect", drive, "--image", &image, "--resume"];
    let mut pty = site.in_terminal(&words);
    pty.see_within(SESSION, "bash-");
    site.interrupt(drive, seconds);
    pty.see_within(SESSION, "goes on on another instance");
    pty.type_in("echo on$((1+1))\r");
    pty.see_within(SESSION, "on2");
    pty.type_in("exit\r");
    pty
}

/// Checks the costs at the end of a session.
fn costs_are_billed(site: &Site, drive: &str, mut pty: Pty) {
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    let shown = pty.contents();
    let start = shown.find("cost: ").unwrap_or_else(|| panic!("{shown}"));
    // The disks of a host that EC2 has taken are billed until it is off.
    site.is_saved(drive, 2);
    site.costs(drive, &shown[start..]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn hosts_that_ec2_took_are_in_what_it_has_cost_as_ec2_bills_them() {
    let site = Site::new();
    for (drive, seconds) in [("noticed", 120), ("cut", 0)] {
        let pty = taken(&site, drive, seconds);
        costs_are_billed(&site, drive, pty);
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn who_does_not_wait_until_ec2_takes_a_host_has_it_terminated_and_pays_for_it() {
    let site = Site::new();
    let mut pty = taken(&site, "demo", 600);
    pty.see_within(SESSION, ", unbilled; Ctrl-C ends it");
    pty.type_in("\x03");
    costs_are_billed(&site, "demo", pty);
    let bill = site.local().bill("demo").unwrap();
    // Two hosts, each for a minute at least.
    assert!(bill.instances > 1.5 * 0.02295 / 60.0, "{bill:?}");
}
