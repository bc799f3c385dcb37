use std::time::Duration;

use xdrive::local::Fault;

use super::super::simulated::plant;
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
fn a_run_waits_for_capacity_and_says_since_when_and_why() {
    let site = Site::new();
    let id = start(&site, &counting(1, 0.2));
    is_at_try(&site, 1);
    site.interrupt("demo", 0);
    is_gone(&site);
    let message = "There is no capacity.";
    let full = Fault::new("RunInstances", 500, "InsufficientInstanceCapacity", message);
    plant(
        &site,
        Fault {
            times: 1000,
            ..full
        },
    );
    let waits = site.run(&["tend", "--once"]);
    waits
        .is(75)
        .reports("demo: the run waits, for 1 min at least");
    site.run(&["ps", "demo"])
        .is(0)
        .prints(&format!("  {id}  waits since 20"))
        .prints("capacity");
    site.run(&["stop", "demo"]).is(0);
    site.run(&["tend", "--once"]).is(0);
    site.is_saved("demo", 1);
}
