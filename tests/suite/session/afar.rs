//! Sessions of a laptop that is far from its hosts.

use std::time::Duration;

use super::site::{SESSION, Site};
use super::terminal::{ends, has_words, shell_that_wrote, write};
use harness::{Distance, eventually_within};

/// A laptop half around the world, over a bad uplink: 300 ms there and back, 0.5 Mbit/s.
const FAR: Distance = Distance {
    round_trip: Duration::from_millis(300),
    up: Some(500_000 / 8),
};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_laptop_half_around_the_world_connects_works_checkpoints_and_saves() {
    let site = Site::new();
    site.session("demo", &["true"]).is(0);
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

/// A round trip longer than any work of the EC2 in a folder, or of a busy machine.
const ROUND_TRIP: Duration = Duration::from_millis(1500);

/// The most round trips from Enter to the prompt, for a login and one request.
const MOST: usize = 8;

/// How often it is measured: on a busy machine parallel work may add to the count, never subtract,
/// so one run with few round trips shows that no more are needed.
const TIMES: usize = 5;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_prompt_on_a_running_host_is_eight_round_trips_away() {
    let at = |round_trip| Distance {
        round_trip,
        up: None,
    };
    let near = Site::with_a_drive();
    // What comes along for Git takes no round trip.
    let identity = "[user]\n\tname = Jane\n";
    std::fs::write(near.home().join(".gitconfig"), identity).unwrap();
    let site = near.far_away(at(Duration::ZERO));
    let mut pty = shell_that_wrote(&site, "near");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.moves(at(ROUND_TRIP));
    let mut taken = Vec::new();
    let mut pty = loop {
        let before = site.round_trips();
        let mut pty = site.in_terminal(&["connect", "demo"]);
        pty.see_within(SESSION, "bash-");
        taken.push(site.round_trips() - before);
        assert!(!pty.modes_are_as_before(), "raw mode is on");
        if taken.last() <= Some(&MOST) || taken.len() == TIMES {
            break pty;
        }
        pty.type_in("\r~d");
        assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    };
    write(&mut pty, "afar");
    pty.type_in("exit 7\r");
    ends(pty, &site, 7, 2);
    has_words(&near, &["near", "afar"]);
    assert!(
        taken.iter().all(|taken| *taken >= 3),
        "nothing went the long way"
    );
    assert!(taken.last() <= Some(&MOST), "round trips: {taken:?}");
}
