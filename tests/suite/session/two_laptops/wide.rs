//! Variants of `two_laptops`, which `shell/test.sh --all` runs.

use std::time::Duration;

use rustix::process::Signal;
use xdrive::local::Fault;

use super::{end, joined, leads, left, two_laptops};
use crate::session::site::{SESSION, Site};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_guest_keeps_the_lease_as_the_lead_does() {
    let (site, other) = two_laptops();
    let lease = Duration::from_secs(15);
    // It ends soon after its laptop is killed, and so keeps the host no longer than that.
    let command = "echo begun; until [ -e /work/end-lead ]; do sleep 0.1; done";
    let until_killed = ["--", "sh", "-c", command];
    let arguments = [&["connect", "demo", "--keep", "15s"][..], &until_killed].concat();
    let mut lead = site.start(&arguments);
    lead.prints("begun\n");
    let guest = joined(&other, "guest", 0);
    // Long enough for the lead to have renewed its own, shorter one.
    std::thread::sleep(lease);
    lead.signal(Signal::KILL);
    assert_eq!(lead.end().code(), 128 + 9);
    end(&other, "lead");
    std::thread::sleep(2 * lease);
    end(&other, "guest");
    guest
        .end()
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_signal_ends_no_other_session() {
    let (site, other) = two_laptops();
    for (index, (signal, code)) in [(Signal::TERM, 143), (Signal::HUP, 129)]
        .into_iter()
        .enumerate()
    {
        let lead = leads(&site, &format!("lead{index}"), 0);
        let word = format!("guest{index}");
        let guest = joined(&other, &word, 0);
        lead.signal(signal);
        left(&lead.end(), code);
        end(&site, &word);
        guest
            .end()
            .is(0)
            .reports("demo is saved: its snapshot (snap-");
        site.is_saved("demo", 2 + index);
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_guest_in_a_terminal_has_a_shell_of_its_own_and_a_stop_ends_all() {
    let (site, other) = two_laptops();
    let lead = leads(&site, "lead", 0);
    let mut guest = other.in_terminal(&["connect", "demo"]);
    guest.see_within(SESSION, "# ");
    guest.type_in("echo $((6 * 7)) >/work/by-guest; cat /work/by-guest\r");
    guest.see("42");
    site.run(&["stop", "demo"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    lead.end().is(255).reports("the host closed the drive");
    assert_eq!(guest.wait_within(SESSION), 255, "{}", guest.contents());
    guest.see("the host closed the drive");
    assert!(guest.modes_are_as_before());
    let kept = site.run(&["connect", "demo", "--", "cat", "/work/by-guest"]);
    assert_eq!(kept.is(0).stdout, "42\n");
}

/// Makes EC2 Instance Connect fail, so many times.
fn without_instance_connect(site: &Site, times: u32) {
    let mut fault = Fault::new("SendSSHPublicKey", 400, "AuthException", "not allowed");
    fault.times = times;
    site.local().plant(fault).unwrap();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_laptop_that_cannot_join_reports_the_end_of_the_lease_and_can_wait_for_it() {
    let (site, other) = two_laptops();
    let lead = leads(&site, "lead", 0);
    without_instance_connect(&site, 1000);
    let refused = other.run(&["connect", "demo", "--", "true"]);
    refused
        .is(75)
        .reports("this laptop cannot join: SendSSHPublicKey: AuthException: not allowed\nits lease ends at 20");
    let mut waiting = other.in_terminal(&["connect", "demo"]);
    waiting.see_within(SESSION, "wait for that? [y/N]");
    waiting.type_in("y\r");
    waiting.see_within(SESSION, "wait for demo's instance (i-");
    end(&site, "lead");
    lead.end().is(0);
    waiting.see_within(SESSION, "# ");
    waiting.type_in("exit\r");
    assert_eq!(waiting.wait_within(SESSION), 0, "{}", waiting.contents());
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_that_saves_does_not_mind_the_one_that_begins() {
    let (site, other) = two_laptops();
    let moments = [
        "container stopped",
        "started demo's snapshot",
        "terminated demo's instance",
    ];
    for (round, line) in moments.into_iter().enumerate() {
        let mut first = site.start(&["connect", "demo", "--", "true"]);
        first.reports(line);
        let next = leads(&other, &format!("next{round}"), 0);
        // It ended on its own, while the other one went on.
        first
            .end()
            .is(0)
            .reports("demo is saved: its snapshot (snap-");
        end(&site, &format!("next{round}"));
        next.end().is(0);
    }
}
