//! Variants of `afar`, which `shell/test.sh --all` runs.

use std::time::Duration;

use crate::session::site::{SESSION, Site};
use crate::session::terminal::{has_words, write};
use harness::{Distance, eventually_within};

/// A laptop half around the world, over a bad uplink: 300 ms there and back, 0.5 Mbit/s.
const FAR: Distance = Distance {
    round_trip: Duration::from_millis(300),
    up: Some(500_000 / 8),
};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_laptop_half_around_the_world_connects_works_checkpoints_and_saves() {
    let site = Site::with_a_drive();
    let far = site.far_away(FAR);
    let mut pty = far.in_terminal(&["connect", "demo", "--checkpoint", "15s"]);
    pty.see_within(SESSION, "# ");
    assert!(!pty.modes_are_as_before(), "raw mode is on");
    write(&mut pty, "afar");
    // A successful one is not printed over the shell's screen.
    let snapshots = || {
        site.kinds("demo")
            .iter()
            .filter(|kind| *kind == "snapshot")
            .count()
    };
    eventually_within(SESSION, || pty.contents(), || snapshots() >= 2);
    pty.type_in("exit 7\r");
    assert_eq!(pty.wait_within(SESSION), 7, "{}", pty.contents());
    assert!(pty.modes_are_as_before(), "{}", pty.contents());
    pty.see("demo is saved: its snapshot (snap-");
    assert!(far.connections() >= 2, "nothing went the long way");
    assert_eq!(site.drive("demo")["state"], "saved");
    site.has_no_leaks();
    has_words(&site, &["afar"]);
}
