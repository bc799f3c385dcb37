//! A drive that is left running with `~d`, and the sessions after that.

use std::thread;
use std::time::{Duration, Instant};

use super::json::document;
use super::site::{SESSION, Site};
use super::terminal::{ends, has_words, shell_that_wrote, write};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn who_comes_back_to_a_drive_that_was_left_running_is_in_the_same_shell() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "left");
    pty.type_in("WORD=$((6*7))-is-kept; echo $WORD\r");
    pty.see_within(SESSION, "42-is-kept");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    assert!(pty.modes_are_as_before(), "{}", pty.contents());
    pty.see("demo is left running on its instance (i-");
    // On a spot instance the price is known.
    pty.see(" an hour");
    pty.see("connect demo");
    pty.see("stop demo");
    let would = site.run(&["connect", "demo", "--dry-run", "--json"]);
    let would = document("dry-run", would.is(0));
    assert_eq!(would["action"], "use", "{would}");

    let mut back = site.in_terminal(&["connect", "demo", "-m", "came back"]);
    back.see_within(SESSION, "synced-left-42");
    back.type_in("echo \"and $WORD\"\r");
    back.see_within(SESSION, "and 42-is-kept");
    back.type_in("exit 4\r");
    ends(back, &site, 4, 2);
    let logged = document("log", site.run(&["log", "demo", "--json"]).is(0));
    assert_eq!(logged[0]["note"], "came back");
    has_words(&site, &["left"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_that_no_client_comes_back_to_is_closed_and_its_instance_switched_off() {
    let site = Site::with_a_drive();
    let mut pty = site.in_terminal(&["connect", "demo", "--keep", "10s"]);
    pty.see_within(SESSION, "# ");
    write(&mut pty, "left");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    let began = Instant::now();
    while site.drive("demo")["state"] != "volume" {
        assert!(began.elapsed() < SESSION, "it runs on");
        thread::sleep(Duration::from_millis(100));
    }
    // The volume waits, and the next session is in it.
    has_words(&site, &["left"]);
}
