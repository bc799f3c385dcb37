//! Variants of `selftest`, which `shell/test.sh --all` runs.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use xdrive::local::Fault;

use super::{is_bare, report, result, selftest, words};
use crate::session::simulated::plant;
use crate::session::site::Site;
use crate::session::tree::second;

const ROLE: &str = "arn:aws:iam::111122223333:role/fis";

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
fn where_nothing_is_late_the_first_touch_says_so() {
    let site = Site::new();
    let ended = selftest(&site, &["--first-touch"]);
    ended
        .is(0)
        .prints(" of 64 blocks of 512 KiB were late, the slowest ")
        .prints(" ms; what is there comes after ");
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_interrupt_between_two_hosts_leaves_nothing() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&words(&image, &["--first-touch"]));
    running.reports("-touch is saved");
    running.signal(Signal::INT);
    let ended = running.end();
    ended
        .is(130)
        .prints("not asked  first touch         interrupted before ")
        .reports("nothing is left that is billed");
    is_bare(&site);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn two_hosts_are_not_begun_for_the_price_of_one() {
    let site = Site::new();
    let ended = selftest(&site, &["--first-touch", "--budget", "0.09"]);
    ended
        .is(0)
        .prints("not asked  first touch         it may cost $");
    let report = report(&site);
    assert_eq!(result(&report, "interruption"), "ok", "{report:#}");
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
fn a_selftest_that_fails_leaves_nothing_billed() {
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
