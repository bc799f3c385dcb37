//! The first drive of a caller: what a session is, explained once.

use std::time::Duration;

use rustix::process::Signal;

use super::paper::{paper, with_snapshot};
use super::site::Site;

/// The first line of the explanation.
const FIRST: &str = "demo is your first drive here.";

/// What a shell on the drive `demo` prints until its instance is launched. It is interrupted then.
fn begun(site: &Site, owner: &str) -> String {
    let image = site.image();
    let xdrive = env!("CARGO_BIN_EXE_xdrive");
    let script = format!(
        "eval \"$({xdrive} --local local env)\"; exec {xdrive} connect {owner} --image {image}"
    );
    let mut pty = site.program_in_terminal(&["/bin/sh", "-c", &script]);
    pty.see_within(Duration::from_mins(1), "launched i-");
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
fn a_session_is_explained_only_to_who_has_no_drive_yet() {
    let site = paper();
    let mut serving = site.start(&["local", "serve", "--port", "0"]);
    serving.prints("http://");
    let told = begun(&site, "demo");
    assert!(told.contains(FIRST), "{told}");
    for words in [
        "launches  the cheapest type with 2 CPUs and 4 GiB, as spot",
        "costs  ",
        "ends  ",
        "to leave  ~d",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(told.find(FIRST) < told.find("launching "), "{told}");

    with_snapshot(&site, &[("xdrive:drive", "other")]);
    let told = begun(&site, "demo");
    assert!(!told.contains("your first drive"), "{told}");
    serving.signal(Signal::TERM);
    serving.end();
}
