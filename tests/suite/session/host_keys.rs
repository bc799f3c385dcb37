//! The host key by which clients know a host: the one in user data for the first claim alone.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::site::{SESSION, Site};
use super::terminal::{ends, shell_that_wrote};

/// The newest value of the tag.
fn recorded(site: &Site, instance: &str) -> String {
    let state = fs::read(site.dir().join("state.json")).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    let edits = state["instances"][instance]["tags"].as_array().unwrap();
    let mut edits = edits.iter().rev();
    let edit = edits.find(|edit| edit["key"] == "xdrive:host-key").unwrap();
    edit["value"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_was_claimed_is_known_by_a_key_that_never_left_it() {
    let site = Site::with_a_drive();
    let mut pty = shell_that_wrote(&site, "first");
    let instance = site.instance("demo");
    let own = recorded(&site, &instance);
    assert!(own.starts_with("ssh-ed25519 "), "{own}");
    let folder = site.dir().join("instances").join(&instance);
    let script = fs::read(folder.join("imds/user-data")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&script[..]), &mut text)
        .unwrap();
    assert!(text.contains("XDRIVE_HOST_PUBLIC_KEY='ecdsa-sha2-nistp256 "));

    // A second client, and the first again: both by the key that the tag has.
    site.run(&["cp", "demo:/etc/hostname", "."]).is(0);
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    let mut back = site.in_terminal(&["connect", "demo"]);
    back.see_within(SESSION, "first");
    assert_eq!(recorded(&site, &instance), own);
    back.type_in("exit\r");
    back.see_within(Duration::from_mins(1), "demo is saved");
    ends(back, &site, 0, 2);
}
