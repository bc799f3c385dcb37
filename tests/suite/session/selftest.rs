//! `xdrive selftest` on the EC2 in a folder: its report, and that it leaves nothing there.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use xdrive::local::Fault;

use super::json::check;
use super::simulated::{in_the_cloud, paper, plant, with_snapshot};
use super::site::{Ended, Site};
use super::tree::second;
use harness::cloud::left;

const ROLE: &str = "arn:aws:iam::111122223333:role/fis";

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
    for name in ["IAM simulation", "encryption", "Session Manager", "GPU"] {
        assert_eq!(result(&report, name), "not-asked", "{report:#}");
    }
    let spent = report["spent_dollars"].as_f64().unwrap();
    assert!(spent > 0.0 && spent < 0.5, "{report:#}");
    assert_eq!(report["left"], Value::Array(Vec::new()));
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the second tree"]
fn it_passes_on_the_second_tree_too() {
    let site = Site::new();
    site.configure(&format!("ami = {:?}\n", second()));
    let ended = selftest(&site, &[]);
    ended.is(0).prints("xdrive's second tree");
    let report = report(&site);
    for name in [
        "sshd",
        "docker data-root",
        "metadata",
        "save",
        "interruption",
    ] {
        assert_eq!(result(&report, name), "ok", "{name}: {report:#}");
    }
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn it_passes_on_the_free_plan_with_what_the_free_tier_has() {
    let site = Site::with_settings("plan = \"free\"\n");
    let ended = selftest(&site, &[]);
    ended
        .is(0)
        .reports("this account is on AWS's Free plan")
        .reports("), c7i-flex.large spot\n");
    let report = report(&site);
    for name in ["machine image", "docker data-root", "save", "interruption"] {
        assert_eq!(result(&report, name), "ok", "{name}: {report:#}");
    }
    is_bare(&site);
}

/// The numbers of Fault Injection Service's templates and experiments in the state file.
fn injected(site: &Site) -> (usize, usize) {
    let text = fs::read_to_string(site.dir().join("state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    let count = |of: &str| state[of].as_object().map_or(0, serde_json::Map::len);
    (count("templates"), count("experiments"))
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_experiment_takes_its_instance_back_and_the_drive_is_saved() {
    let site = Site::new();
    let ended = selftest(&site, &["--fis-role", ROLE]);
    ended
        .is(0)
        .prints("of Fault Injection Service: a notice, and the drive was saved in time")
        .reports("nothing is left that is billed");
    let report = report(&site);
    assert_eq!(result(&report, "interruption"), "ok", "{report:#}");
    assert_eq!(injected(&site), (0, 1));
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn no_host_is_had_for_an_experiment_that_the_caller_may_not_make() {
    let site = Site::new();
    let create = "CreateExperimentTemplate";
    let words = "You are not authorized to perform iam:PassRole.";
    let mut fault = Fault::new(create, 403, "AccessDeniedException", words);
    fault.times = 9;
    plant(&site, fault);
    let ended = selftest(&site, &["--fis-role", ROLE]);
    ended
        .is(0)
        .prints("not asked  interruption        AccessDeniedException: You are not authorized")
        .prints("policy --selftest prints the policy that allows it");
    let report = report(&site);
    let lines = report["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["name"] == "interruption");
    assert!(line.unwrap()["dollars"].is_null(), "{report:#}");
    assert_eq!(injected(&site), (0, 0));
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_interrupt_while_an_experiment_is_started_leaves_no_template() {
    let site = Site::new();
    let mut fault = Fault::throttled("StartExperiment", 9);
    fault.times = 9;
    plant(&site, fault);
    let image = site.image();
    let running = site.start(&words(&image, &["--fis-role", ROLE]));
    // The template is made by then, and the next try is a second away.
    let has_met = || {
        let text = fs::read_to_string(site.dir().join("state.json")).unwrap();
        let state: Value = serde_json::from_str(&text).unwrap();
        state["faults"][0]["times"] != 9
    };
    let begun = Instant::now();
    while !has_met() {
        assert!(begun.elapsed() < Duration::from_mins(5), "never started");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(injected(&site), (1, 0));
    running.signal(Signal::INT);
    let ended = running.end();
    ended.is(130).reports("nothing is left that is billed");
    let report = report(&site);
    assert_eq!(result(&report, "interruption"), "not-asked", "{report:#}");
    assert_eq!(injected(&site), (0, 0));
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
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_interrupt_in_the_middle_leaves_nothing() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&words(&image, &[]));
    running.reports("mounted, generation 1");
    running.signal(Signal::INT);
    let ended = running.end();
    ended.is(130).reports("nothing is left that is billed");
    let report = report(&site);
    assert_eq!(result(&report, "interruption"), "not-asked", "{report:#}");
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn what_fails_is_cleared_away_all_the_same() {
    let site = Site::new();
    // The instance is up by then, or about to be.
    let message = "You have exceeded your maximum gp3 storage limit of 0 TiB in this region.";
    let mut fault = Fault::new("CreateVolume", 400, "VolumeLimitExceeded", message);
    fault.times = 1000;
    plant(&site, fault);
    let ended = selftest(&site, &[]);
    ended
        .prints("failed     machine image")
        .prints("VolumeLimitExceeded");
    assert_ne!(ended.code(), 0, "{ended:?}");
    ended.reports("nothing is left that is billed");
    let report = report(&site);
    assert_eq!(result(&report, "sshd"), "not-asked", "{report:#}");
    is_bare(&site);
}

#[test]
fn what_a_killed_run_left_is_thrown_away_by_the_next_and_nothing_of_anybody_elses() {
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
