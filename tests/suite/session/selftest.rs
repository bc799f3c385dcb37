//! `xdrive selftest` on the EC2 in a folder: its report, and that it leaves nothing there.

mod wide;

use serde_json::Value;
use std::fs;
use xdrive::local::Fault;

use super::json::check;
use super::simulated::{in_the_cloud, paper, plant, with_snapshot};
use super::site::{Ended, Site};
use harness::cloud::left;

/// The arguments, with the small image and a report as JSON.
fn words<'a>(image: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all: [&[&str]; 2] = [
        &["selftest", "--json", "report.json", "--image", image],
        more,
    ];
    all.concat()
}

fn selftest(site: &Site, more: &[&str]) -> Ended {
    site.run(&words(&site.image(), more))
}

fn report(site: &Site) -> Value {
    let text = fs::read_to_string(site.path("report.json")).unwrap();
    let report = serde_json::from_str(&text).unwrap();
    check("selftest", &report);
    report
}

/// The result of the finding of that name.
fn result(report: &Value, name: &str) -> String {
    let lines = report["lines"].as_array().unwrap();
    let mut named = lines.iter().filter(|line| line["name"] == name);
    let line = named
        .next()
        .unwrap_or_else(|| panic!("no {name}: {report:#}"));
    assert!(named.next().is_none(), "{name} twice: {report:#}");
    line["result"].as_str().unwrap().to_owned()
}

/// Checks that no part of any drive exists.
fn is_bare(site: &Site) {
    assert_eq!(left(&site.local()), [""; 0]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn it_passes_on_the_local_ec2_and_leaves_nothing() {
    let site = Site::new();
    let ended = selftest(&site, &[]);
    ended.is(0).prints("ok         machine image");
    ended
        .reports("nothing is left that is billed")
        .reports("the report is report.json");
    let report = report(&site);
    for name in [
        "account",
        "rights",
        "machine image",
        "sshd",
        "docker data-root",
        "drive",
        "save",
    ] {
        assert_eq!(result(&report, name), "ok", "{name}: {report:#}");
    }
    assert_eq!(result(&report, "interruption"), "ok", "{report:#}");
    for name in ["encryption", "Session Manager", "GPU", "first touch"] {
        assert_eq!(result(&report, name), "not-asked", "{report:#}");
    }
    let spent = report["spent_dollars"].as_f64().unwrap();
    assert!(spent > 0.0 && spent < 0.5, "{report:#}");
    assert_eq!(report["left"], Value::Array(Vec::new()));
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_first_touch_is_measured_on_what_came_back_from_its_snapshot() {
    let site = Site::with_settings("[volumes]\nlazy = true\nmedian-ms = 60\np99-ms = 90\n");
    // What hosts fetch first, or buy, would be measured with it.
    site.configure("hot = true\nwarm = 300\n");
    let ended = selftest(&site, &["--first-touch"]);
    ended
        .is(0)
        .prints("ok         first touch         64 of 64 blocks of 512 KiB were late, the slowest ")
        .prints(" by 4 KiB of each, ")
        .reports("first touch: 2 hosts, one after the other, for $")
        .reports("nothing is left that is billed");
    let report = report(&site);
    assert_eq!(result(&report, "first touch"), "ok", "{report:#}");
    is_bare(&site);
}

#[test]
fn a_role_for_experiments_is_named_by_its_arn() {
    let site = paper();
    selftest(&site, &["--fis-role", "fis"])
        .is(2)
        .reports("it is no role's ARN");
}

#[test]
fn a_selftest_deletes_what_a_killed_one_left_and_nothing_of_anybody_else() {
    let site = paper();
    let mine = [
        ("xdrive:drive", "selftest-0-usual"),
        ("xdrive:scratch", "yes"),
    ];
    with_snapshot(&site, &mine);
    let hers = [("xdrive:drive", "selftest-1"), ("xdrive:generation", "2")];
    let kept = with_snapshot(&site, &hers);
    selftest(&site, &[])
        .is(0)
        .prints("selftest-0-usual is gone");
    let left = in_the_cloud(&site, async |ec2| {
        let (_, _, snapshots) = ec2.everything().await.unwrap();
        snapshots.into_iter().map(|it| it.id).collect::<Vec<_>>()
    });
    assert_eq!(left, [kept]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn nothing_is_begun_that_could_cost_more_than_the_budget() {
    let site = Site::new();
    // Real machines, of which none is launched.
    let ended = selftest(&site, &["--budget", "0.001"]);
    ended
        .is(0)
        .prints("not asked  machine image")
        .prints("of the budget: --budget");
    let report = report(&site);
    assert_eq!(report["spent_dollars"], 0.0, "{report:#}");
    assert_eq!(result(&report, "sshd"), "not-asked");
    is_bare(&site);
}

#[test]
fn an_ec2_of_states_only_is_asked_what_it_can_answer() {
    let site = paper();
    let ended = selftest(&site, &[]);
    ended
        .is(0)
        .prints("ok         rights")
        .prints("and no hosts");
    let report = report(&site);
    assert_eq!(report["place"], "paper");
    assert_eq!(result(&report, "machine image"), "not-asked");

    let mut fault = Fault::new("CreateVolume", 403, "UnauthorizedOperation", "no");
    fault.times = 9;
    plant(&site, fault);
    // A fault does not affect dry runs here: calls that only read are refused.
    let mut fault = Fault::new("DescribeVpcs", 403, "UnauthorizedOperation", "You are not.");
    fault.times = 9;
    plant(&site, fault);
    let ended = selftest(&site, &[]);
    ended.is(77).prints("failed     network").prints("hint: ");
}
