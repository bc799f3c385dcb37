//! Variants of `restart`, which `shell/test.sh --all` runs.

use super::{reset_in_the_middle, stubborn};
use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_that_restarts_while_a_notice_closes_it_is_saved_with_all_that_was_synced() {
    let site = Site::new();
    let running = stubborn(&site);
    let instance = site.interrupt("demo", 120);
    reset_in_the_middle(&site, &instance);
    let ended = running.end();
    ended.is(75).reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
    let things = site.drive("demo")["things"].to_string();
    assert!(things.contains("crashed"), "{things}");
    let after = site.run(&["connect", "demo", "--", "cat", "/work/note", "/note"]);
    assert_eq!(after.is(0).stdout, "synced\nlayer\n");
    site.is_saved("demo", 2);
}
