//! Sessions of images from a registry, a real one in the instance's network.

use super::site::{SESSION, Site};
use super::terminal::ends;
use super::tree::{init, inside};
use harness::registry::{PRIVATE, Registry, SLOW, publish};

/// A drive whose session was left running, with a registry beside it that has `three:v1`.
fn with_a_registry() -> (Site, Registry) {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &image]);
    pty.see_within(SESSION, "# ");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    let registry = Registry::start(&init(&site));
    inside(&site, &publish("xdrive/image:latest", "three:v1"));
    (site, registry)
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_terminal_shows_how_far_a_pull_is() {
    let (site, registry) = with_a_registry();
    let reference = format!("{SLOW}/three:v1");
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &reference]);
    pty.see_within(SESSION, "pull three:v1: ");
    pty.see_within(SESSION, "of 4 layers, ");
    pty.see_within(SESSION, &format!("pulled {reference}: 4 layers, 12 MB"));
    pty.see_within(SESSION, "# ");
    // The registry is in the instance's network, and must not keep that alive.
    drop(registry);
    pty.type_in("exit\r");
    ends(pty, &site, 0, 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_registry_that_wants_a_login_is_named_and_the_drive_saved() {
    let (site, registry) = with_a_registry();
    let reference = format!("{PRIVATE}/three:v1");
    let running = site.start(&["connect", "demo", "--image", &reference, "--", "true"]);
    let ended = running.end();
    drop(registry);
    ended
        .is(77)
        .reports(&format!("{PRIVATE} refused {reference}: it needs a login"))
        .reports("no basic auth credentials")
        .reports("hint: xdrive logs in to no registry")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_registry_that_is_not_there_is_named_and_the_drive_saved() {
    let site = Site::new();
    let arguments = [
        "connect",
        "demo",
        "--image",
        "registry.invalid/a:b",
        "--",
        "true",
    ];
    site.run(&arguments)
        .is(69)
        .reports("the instance does not reach the registry registry.invalid")
        .reports("hint: is its name right")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
}
