//! The first drive of a caller: what a session is, explained once.

use std::time::Duration;

use rustix::process::Signal;

use super::simulated::{paper, with_snapshot};
use super::site::Site;

/// The first line of the explanation.
const FIRST: &str = "demo is your first drive here.";

/// The output of a shell on the drive `demo` until its instance is launched. It is interrupted
/// then.
fn begun(site: &Site, owner: &str) -> String {
    let image = site.image();
    let xdrive = env!("CARGO_BIN_EXE_xdrive");
    let script = format!(
        "eval \"$({xdrive} --local local env)\"; exec {xdrive} connect {owner} --image {image}"
    );
    let mut pty = site.program_in_terminal(&["/bin/sh", "-c", &script]);
    pty.see_within(Duration::from_mins(1), "launched demo's instance (i-");
    pty.type_in("\x03");
    assert_eq!(
        pty.wait_within(Duration::from_mins(1)),
        130,
        "{}",
        pty.contents()
    );
    pty.contents()
}

#[test]
fn a_session_is_explained_until_its_user_has_a_drive() {
    let site = paper();
    let mut serving = site.start(&["local", "serve", "--port", "0"]);
    serving.prints("http://");
    let screen = begun(&site, "demo");
    assert!(screen.contains(FIRST), "{screen}");
    for words in [
        "launches  the cheapest type with 2 CPUs and 4 GiB, as spot",
        "costs  ",
        "ends  ",
        "to leave  ~d",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    assert!(screen.find(FIRST) < screen.find("launching "), "{screen}");

    with_snapshot(&site, &[("xdrive:drive", "other")]);
    let screen = begun(&site, "demo");
    assert!(!screen.contains("your first drive"), "{screen}");
    serving.signal(Signal::TERM);
    serving.end();
}
