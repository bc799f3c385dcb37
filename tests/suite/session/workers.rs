//! `xdrive workers`: throwaway copies of a drive in one network with it.

pub(super) mod joined;
mod wide;

use super::json::document;
use super::simulated::{count, in_the_cloud, paper, traced, with_snapshot};
use super::site::Site;

/// The words that have a worker of `demo` on record: a copy of its newest save.
fn with_worker(site: &Site, number: u16) {
    let name = format!("demo.w{number}");
    with_snapshot(
        site,
        &[
            ("Name", &name),
            ("xdrive:drive", &name),
            ("xdrive:worker-of", "demo"),
        ],
    );
}

#[test]
fn workers_are_listed_by_the_tags_of_what_they_began_with() {
    let site = paper();
    site.run(&["workers", "demo"])
        .is(0)
        .prints("demo has no workers");
    with_snapshot(&site, &[]);
    for number in [10, 2] {
        with_worker(&site, number);
    }
    // Called like one, and none.
    with_snapshot(&site, &[("Name", "demo.w3"), ("xdrive:drive", "demo.w3")]);
    let listed = site.run(&["workers", "demo"]);
    assert_eq!(
        listed.is(0).stdout,
        "w2  demo.w2  gone, and its copy of the drive is left\n\
         w10  demo.w10  gone, and its copy of the drive is left\n"
    );
    // Below their leader, as their numbers are.
    with_snapshot(&site, &[("Name", "demo-b"), ("xdrive:drive", "demo-b")]);
    let rows = document("list", &site.run(&["list", "--json"]));
    let rows = rows.as_array().unwrap().iter();
    let rows: Vec<(&str, Option<&str>)> = rows
        .map(|row| (row["drive"].as_str().unwrap(), row["worker_of"].as_str()))
        .collect();
    let own = |name| (name, None);
    let worker = |name| (name, Some("demo"));
    assert_eq!(
        rows,
        [
            own("demo"),
            worker("demo.w2"),
            worker("demo.w10"),
            own("demo-b"),
            own("demo.w3")
        ]
    );
    let rows = document("workers", &site.run(&["workers", "demo", "--json"]));
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert_eq!(rows[0]["worker"], "w2");
    assert_eq!(rows[0]["state"], "gone");
}

#[test]
fn what_is_left_of_workers_is_ended_and_nothing_else() {
    let site = paper();
    with_snapshot(&site, &[]);
    for number in 1..=3 {
        with_worker(&site, number);
    }
    with_snapshot(&site, &[("Name", "demo.w4"), ("xdrive:drive", "demo.w4")]);
    site.run(&["workers", "demo", "0"])
        .is(0)
        .reports("demo.w1 has ended")
        .reports("demo.w3 has ended");
    site.run(&["workers", "demo"])
        .is(0)
        .prints("demo has no workers");
    // Nor what a user has saved of one.
    with_worker(&site, 5);
    with_snapshot(
        &site,
        &[
            ("Name", "demo.w5"),
            ("xdrive:drive", "demo.w5"),
            ("xdrive:generation", "2"),
        ],
    );
    site.run(&["workers", "demo", "0"]).is(0);
    let left = in_the_cloud(&site, async |ec2| ec2.everything().await.unwrap().2);
    let mut names: Vec<&str> = left
        .iter()
        .map(|it| it.tags["xdrive:drive"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["demo", "demo.w4", "demo.w5", "demo.w5"]);
}

#[test]
fn no_worker_is_begun_without_a_leader_a_save_and_a_command() {
    let site = paper();
    let refused = |words: &[&str], code| {
        let ended = traced(&site, &[&["workers", "demo"], words].concat());
        ended.is(code);
        for call in [
            "RunInstances",
            "CreateSnapshot",
            "CopySnapshot",
            "AuthorizeSecurityGroupIngress",
        ] {
            assert_eq!(count(&ended, call), 0, "{call}");
        }
        ended
    };
    refused(&["2", "--", "true"], 69).reports("there is no drive demo");
    with_snapshot(&site, &[]);
    refused(&["2", "--", "true"], 69)
        .reports("demo is not up: its workers would find no leader")
        .reports("xdrive --local connect demo brings it up first");
    refused(&["2"], 2).reports("there is no command for 2 workers");
    refused(&["--max", "1h"], 2).reports("are for workers that are begun");
    refused(&["201", "--", "true"], 2);
    refused(&["1", "--image", "x", "--", "true"], 2).reports("--image");
    refused(&["1", "--", "echo a && echo b"], 2).reports("is one word");
}

#[test]
fn a_dry_run_says_what_all_cost_and_which_quota_does_not_allow_as_many() {
    let site = Site::with_settings("plane = \"paper\"\n[quotas]\n\"L-34B43A08\" = 8\n");
    with_snapshot(&site, &[]);
    with_worker(&site, 1);
    let words = ["workers", "demo", "5", "--type", "m5.large", "--dry-run"];
    let ended = traced(&site, &words);
    ended
        .is(0)
        .prints("5 workers of demo: about $")
        .prints("\"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests\" (L-34B43A08) allows 8 vCPUs")
        .prints("and 10 are needed")
        .prints("request-service-quota-increase --service-code ec2 --quota-code L-34B43A08 --desired-value 10")
        .prints("a capacity reservation: none is taken by spot")
        .prints("nothing was changed");
    assert_eq!(count(&ended, "RunInstances"), 0);
    let words = [&words[..], &["--on-demand", "--json"]].concat();
    let preview = document("workers-dry-run", &site.run(&words));
    assert_eq!(preview["launches"], 5);
    assert_eq!(preview["lacking"].as_array().unwrap().len(), 0, "{preview}");
    let reservation = preview["reservation"].as_str().unwrap();
    assert!(
        reservation.contains("create-capacity-reservation --instance-type m5.large")
            && reservation.contains("--instance-count 5"),
        "{reservation}"
    );
}
