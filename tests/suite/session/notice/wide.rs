//! Variants of `notice`, which `shell/test.sh --all` runs.

use std::time::{Duration, Instant};

use xdrive::local::Fault;

use crate::session::simulated::plant;
use crate::session::site::{SESSION, Site};
use crate::session::transfers::{Transfers, echoing, free};
use crate::session::tree::inside;
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_full_screen_program_is_not_written_into_and_who_does_not_go_on_finds_the_drive_saved() {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &image]);
    pty.see_within(SESSION, "bash-");
    // It keeps the screen until it is killed.
    let program = "bash -c 'trap \"\" TERM HUP; printf \"\\033[?1049h\\033[H\\033[2Jfull\"; \
                   while :; do sleep 0.1; done'\r";
    pty.type_in(program);
    let is_full = || pty.screen(|screen| screen.alternate_screen() && screen.contents() == "full");
    eventually_within(SESSION, || pty.contents(), is_full);
    let first = site.interrupt("demo", 120);
    let title = format!("\x1b]2;xdrive: demo's instance ({first}) ends in 1:");
    let mut spoilt = None;
    eventually_within(
        SESSION,
        || format!("{} titles in\n{}", pty.sent(&title), pty.contents()),
        || {
            let (is_alternate, contents) =
                pty.screen(|screen| (screen.alternate_screen(), screen.contents()));
            if is_alternate && contents != "full" {
                spoilt = Some(contents);
            }
            pty.contents().contains("resume on") || pty.sent(&title) > 4
        },
    );
    assert_eq!(spoilt, None);
    assert!(pty.sent(&title) > 0);
    pty.see_within(SESSION, "resume on another instance (spot)? [Y/n]");
    assert_eq!(pty.sent("\x1b[22;2t"), 1, "the old title is put aside");
    assert_eq!(pty.sent("\x1b[23;2t"), 1, "and comes back");
    pty.type_in("n\r");
    assert_eq!(pty.wait_within(SESSION), 75, "{}", pty.contents());
    pty.see("demo is saved: its snapshot (snap-");
    assert!(pty.modes_are_as_before());
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_that_ignores_sigterm_is_ended_in_time_and_never_run_again() {
    let site = Site::new();
    let image = site.image();
    let script = "trap '' TERM; echo kept >/work/note; echo at work >&2; while :; do sleep 1; done";
    let mut running = site.start(&[
        "connect", "demo", "--image", &image, "--resume", "--", "bash", "-c", script,
    ]);
    running.reports("at work");
    site.interrupt("demo", 120);
    let began = Instant::now();
    running.reports("demo was off its instance (i-");
    println!("from the notice to a snapshot: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_mins(2));
    running
        .end()
        .is(75)
        .reports("which ended the command")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
    let next = site.session("demo", &["cat", "/work/note"]);
    assert_eq!(next.is(0).stdout, "kept\n");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ports_lead_to_the_next_instance_and_back_from_it() {
    let site = Site::new();
    let image = site.image();
    let one = free();
    let (back, way) = (
        format!("7001:127.0.0.1:{}", echoing()),
        format!("{one}:localhost:7001"),
    );
    let session = ["connect", "demo", "--resume", "--image", &image];
    let mut pty = site.in_terminal(&[&session[..], &["-R", &back, "-L", &way]].concat());
    pty.see_within(SESSION, "bash-");
    let transfers = Transfers::begin(one);
    transfers.go_on();
    site.interrupt("demo", 120);
    pty.see_within(SESSION, "container stopped");
    pty.see_within(SESSION, "mounted, generation 2");
    transfers.go_on();
    drop(transfers);
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 2);
}

/// Spot that is not to be had: in this zone, or in any.
fn no_spot(site: &Site, zone: Option<&str>) {
    let mut lack = Fault::no_capacity("t3.medium", 99);
    let market = "InstanceMarketOptions.MarketType";
    lack.matching.insert(market.into(), "spot".into());
    if let Some(zone) = zone {
        let place = "Placement.AvailabilityZone";
        lack.matching.insert(place.into(), zone.into());
    }
    plant(site, lack);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn who_is_interrupted_goes_on_as_spot_in_another_zone_and_on_demand_only_after_a_yes() {
    let site = Site::new();
    let image = site.image();
    let session = ["connect", "demo", "--resume", "--image", &image];
    let mut pty = site.in_terminal(&[&session[..], &["--type", "t3.medium"]].concat());
    pty.see_within(SESSION, "spot in us-east-1a, $");
    pty.see_within(SESSION, "bash-");
    no_spot(&site, Some("us-east-1a"));
    site.interrupt("demo", 120);
    pty.see_within(
        SESSION,
        "there is no capacity in us-east-1a: demo goes on from its snapshot, in any zone",
    );
    pty.see_within(SESSION, "t3.medium spot, at about $");
    pty.see_within(SESSION, "bash-");
    no_spot(&site, None);
    site.interrupt("demo", 120);
    pty.see_within(SESSION, "t3.medium costs $0.0416 an hour on demand");
    pty.see_within(SESSION, "launch on demand instead? [y/N]");
    pty.type_in("\r");
    assert_eq!(pty.wait_within(SESSION), 75, "{}", pty.contents());
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_whose_instance_is_gone_at_once_ends_as_after_a_notice() {
    let site = Site::new();
    let image = site.image();
    let mut running = site.start(&[
        "connect",
        "demo",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        "echo at work >&2; sleep 600",
    ]);
    running.reports("at work");
    let instance = site.instance("demo");
    // Its connections end before it does, and there is no way back meanwhile.
    inside(&site, "pkill -KILL sshd || true");
    let at = site.local().interrupt(&instance, Duration::ZERO);
    at.unwrap();
    let ended = running.end();
    ended
        .is(75)
        .reports("error: EC2 took demo's instance (i-")
        .reports("and with it the command")
        .reports("demo is saved: its snapshot (snap-");
    assert!(!ended.stderr.contains("back in"), "{}", ended.stderr);
    site.is_saved("demo", 1);
}
