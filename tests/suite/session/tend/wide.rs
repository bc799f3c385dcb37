mod away;
mod lagging;

use std::time::Duration;

use xdrive::local::Fault;

use super::super::simulated::{paper, plant, with_snapshot};
use super::*;

/// The longest that a loss and the next try may be apart.
const TENDED: Duration = Duration::from_mins(5);

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_ends_after_two_notices_and_two_power_cuts_with_every_laptop_gone() {
    let site = Site::new();
    let id = start(&site, &counting(60, 1.0));
    let tender = site.other_laptop();
    let mut running = tender.start(&["tend"]);
    for number in 1..=4 {
        eventually_within(
            TENDED,
            || format!("try {number}"),
            || {
                let tries = site.run(&["cat", "demo:tries"]).stdout;
                tries.lines().count() == number
            },
        );
        if number % 2 == 0 {
            kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
        } else {
            site.interrupt("demo", 10);
        }
    }
    eventually_within(
        TENDED,
        || "try 5".to_owned(),
        || {
            let tries = site.run(&["cat", "demo:tries"]).stdout;
            tries.lines().count() == 5
        },
    );
    end(&site);
    running.reports(&format!("demo: the run {id} is done (exit code 0)"));
    running.signal(Signal::TERM);
    running.end().is(143);
    let lines = site.run(&["cat", "demo:lines"]).stdout;
    assert!(lines.lines().count() >= 60, "{lines}");
    assert_eq!(only_run(&site)["try"], 5);
    let kinds = site.kinds("demo");
    assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_waits_while_ec2_refuses_an_instance_and_says_since_when_and_why() {
    let site = Site::new();
    let id = start(&site, &counting(1, 0.2));
    is_at_try(&site, 1);
    site.interrupt("demo", 0);
    is_gone(&site);
    let visit = site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    visit.is(0).reports("demo is saved");
    let kinds = site.kinds("demo");
    for (status, code, message) in [
        (500, "InsufficientInstanceCapacity", "There is no capacity."),
        (
            400,
            "MaxSpotInstanceCountExceeded",
            "Max spot instance count exceeded",
        ),
        (
            403,
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
        ),
        (
            400,
            "KMSKeyNotAccessibleFault",
            "The KMS key cannot be used.",
        ),
    ] {
        plant(
            &site,
            Fault {
                times: 1000,
                ..Fault::new("RunInstances", status, code, message)
            },
        );
        let waits = site.run(&["tend", "--once"]);
        waits.is(75).reports("demo waits, for 1 min at least");
        site.run(&["ps", "demo"])
            .is(0)
            .prints(&format!("  {id}  waits since 20"));
        assert_eq!(site.kinds("demo"), kinds, "{code}");
        site.local().clear_faults().unwrap();
    }
    site.run(&["tend", "--once"])
        .is(0)
        .reports(&format!("demo: the run {id} goes on"));
    is_at_try(&site, 2);
    site.run(&["stop", "demo"]).is(0);
    site.has_no_leaks();
}

#[test]
fn a_run_goes_along_with_its_drives_new_name_and_not_with_a_fork_of_it() {
    let site = paper();
    let tags = [
        ("xdrive:run", "1f00c2"),
        ("xdrive:run-state", "wanted"),
        ("xdrive:run-launch", ""),
        ("xdrive:run-until", "2999-01-01T00:00:00Z"),
    ];
    with_snapshot(&site, &tags);
    let waits = "run 1f00c2 waits for its next try; nobody tends it: xdrive --local";
    site.run(&["list", "demo"]).is(0).prints(waits);
    site.run(&["fork", "demo", "forked"]).is(0);
    let listed = site.run(&["list", "forked"]);
    assert!(!listed.is(0).stdout.contains("1f00c2"), "{listed:?}");
    site.run(&["rename", "demo", "renamed"]).is(0);
    site.run(&["list", "renamed"]).is(0).prints(waits);
}
