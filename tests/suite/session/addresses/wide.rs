//! Variants of `addresses`, which `shell/test.sh --all` runs.

use std::fs;

use serde_json::Value;

use super::SECOND;
use crate::session::site::Site;

/// Whether each instance so far had a public address.
fn were_public(site: &Site) -> Vec<bool> {
    let state = fs::read(site.dir().join("state.json")).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    let instances = state["instances"].as_object().unwrap().values();
    instances
        .map(|instance| instance["public"].as_bool().unwrap())
        .collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn where_the_subnet_gives_no_public_address_one_is_asked_for() {
    let site = Site::with_settings("map-public-ip = false\n");
    site.session("demo", &["true"]).is(0);
    assert_eq!(were_public(&site), [true]);
    let image = site.image();
    let words = ["connect", "demo", "--image", &image, "--subnet", SECOND];
    site.run(&[&words[..], &["--", "true"]].concat()).is(0);
    assert_eq!(were_public(&site), [true, true]);
    // With a proxy command none is needed.
    let way = "bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'";
    site.run(&[&words[..], &["--proxy-command", way, "--", "true"]].concat())
        .is(0);
    let public = were_public(&site);
    assert_eq!(public.iter().filter(|public| **public).count(), 2);
    assert_eq!(public.len(), 3);
    site.is_saved("demo", 3);
}
