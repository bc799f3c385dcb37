//! Hosts that restart, by force, in the middle of their own close.

mod wide;

use std::time::Duration;

use xdrive::local::plane::Plane as _;

use super::site::{Running, SESSION, Site};
use super::tree::inside;
use harness::cloud::plane;
use harness::eventually_within;

/// A session whose command ignores signals, which delays a close for some seconds, after it has
/// synced a file.
fn stubborn(site: &Site) -> Running {
    let image = site.image();
    let script = "trap '' TERM HUP; echo synced > /work/note; echo layer > /note; echo there; \
                  while :; do sleep 0.1; echo more >> /work/more; done";
    let mut running = site.start(&[
        "connect", "demo", "--image", &image, "--", "sh", "-c", script,
    ]);
    running.prints("there\n");
    inside(site, "sync -f /v1");
    running
}

/// Resets the only instance as soon as its close has begun, while the drive is mounted.
fn reset_in_the_middle(site: &Site, instance: &str) {
    let closing = "if [ -e /run/xdrive/closing ]; then mountpoint -q /v1 && echo closing; fi";
    eventually_within(
        SESSION,
        || "a close".to_owned(),
        || inside(site, closing) == "closing\n",
    );
    plane(&site.dir()).reboot(instance, Duration::ZERO).unwrap();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_restarts_while_a_session_closes_it_is_saved_with_all_that_was_synced() {
    let site = Site::new();
    let running = stubborn(&site);
    let instance = site.instance("demo");
    running.signal(rustix::process::Signal::TERM);
    reset_in_the_middle(&site, &instance);
    let ended = running.end();
    ended.is(143).reports("demo is saved");
    site.is_saved("demo", 1);
    let things = site.drive("demo")["things"].to_string();
    assert!(things.contains("crashed"), "{things}");
    let after = site.run(&["connect", "demo", "--", "cat", "/work/note"]);
    assert_eq!(after.is(0).stdout, "synced\n");
}
