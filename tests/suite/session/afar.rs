//! Sessions of a laptop that is far from its hosts.

mod wide;

use std::time::Duration;

use super::site::{SESSION, Site};
use super::terminal::{ends, has_words, shell_that_wrote, write};
use harness::Distance;

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
