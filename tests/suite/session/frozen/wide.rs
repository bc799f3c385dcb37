//! What is refused, what is not frozen, and who has it go on.

use super::{COUNTING, end, has_printed, is_gone, numbers, only_run, printed, went_on, words};
use crate::session::site::{SESSION, Site};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn a_tender_has_a_frozen_run_go_on_as_the_same_try() {
    let site = Site::new();
    let image = site.image();
    let begun = site.run(&words(&["run", "demo", "-d", "--restart"], &image));
    begun.is(0);
    has_printed(&site, 20);
    site.interrupt("demo", 120);
    is_gone(&site);
    let at = printed(&site).lines().count();
    let tender = site.other_laptop();
    let passed = tender.run(&["tend", "--once"]);
    passed.is(0);
    went_on(&passed);
    has_printed(&site, at + 20);
    end(&site);
    is_gone(&site);
    tender.run(&["tend", "--once"]).is(0);
    let all = printed(&site);
    let (count, last) = numbers(&all);
    assert!(count >= at + 20 && last == "over 1", "{count} {last}");
    let run = only_run(&site);
    assert_eq!((&run["try"], &run["status"]), (&1.into(), &37.into()));
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn without_the_time_for_it_a_command_is_ended_as_one_that_may_not_be_frozen() {
    let site = Site::new();
    let image = site.image();
    let command = format!("trap 'echo asked; exit 9' TERM; {COUNTING}");
    let flags = [
        "--freeze",
        "--no-jupyter",
        "--fallback",
        "none",
        "--image",
        &image,
    ];
    let run = ["run", "demo", "--restart"];
    let mut running = site.start(&[&run[..], &flags, &["--", "sh", "-c", &command]].concat());
    running.prints("\n20\n");
    // The steps of the close need more than that.
    site.interrupt("demo", 30);
    running.prints("asked\n");
    running.reports("the command is started again");
    running.prints("asked\n1\n2\n");
    end(&site);
    let ended = running.end();
    ended.is(37).prints("over 2\n");
    assert!(!ended.stderr.contains("froze"), "{}", ended.stderr);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_is_not_stopped_for_what_cannot_be_frozen() {
    let site = Site::new();
    let image = site.image();
    let run = ["run", "demo", "-d", "--no-jupyter", "--image", &image];
    let begun = site.run(&[&run[..], &["--", "sh", "-c", COUNTING]].concat());
    begun.is(0);
    let refused = site.run(&["freeze", "demo"]);
    refused.is(69);
    refused.reports("nothing runs on demo that may be frozen");
    assert_eq!(only_run(&site)["state"], "running");
    assert!(only_run(&site)["freezing"].is_null());
    end(&site);
    let over = || only_run(&site)["status"] == 37;
    eventually_within(SESSION, || "its end".to_owned(), over);
    let none = site.run(&["freeze", "nothing"]);
    assert_ne!(none.code(), 0);
    site.run(&["stop", "demo"]).is(0);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_a_command_writes_that_ends_as_soon_as_it_goes_on_is_shown() {
    let site = Site::new();
    let image = site.image();
    // Until the container has another first process.
    let script = "first() { read -r line </proc/1/stat; set -- $line; shift 21; echo $1; }; was=$(first); n=0; \
                  while [ $(first) = $was ]; do n=$((n + 1)); echo $n; sleep 0.05; done; echo over; exit 37";
    let mut order = words(&["run", "demo", "--restart"], &image);
    *order.last_mut().unwrap() = script;
    let mut running = site.start(&order);
    running.prints("\n20\n");
    site.interrupt("demo", 120);
    let ended = running.end();
    ended.is(37).reports("goes on where it was");
    assert_eq!(numbers(&ended.stdout).1, "over", "{}", ended.stderr);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_begins_may_be_frozen_from_the_flag_on_until_the_other_one() {
    let site = Site::new();
    let image = site.image();
    site.run(&words(&["run", "demo", "-d"], &image)).is(0);
    site.run(&["stop", "demo"]).is(0);
    let rest = ["--no-jupyter", "--", "sh", "-c", COUNTING];
    for (flag, freezes) in [
        (None, true),
        (Some("--freeze=false"), false),
        (None, false),
        (Some("--freeze"), true),
    ] {
        let flag: Vec<&str> = flag.into_iter().collect();
        let begun = site.run(&[&["run", "demo", "-d"], &flag[..], &rest].concat());
        begun.is(0);
        let listed = site.run(&["ps", "demo"]);
        let says = listed.is(0).stdout.contains("    freezes: in about 0 s");
        assert_eq!(says, freezes, "{flag:?}: {listed:?}");
        site.run(&["stop", "demo"]).is(0);
    }
    site.has_no_leaks();
}
