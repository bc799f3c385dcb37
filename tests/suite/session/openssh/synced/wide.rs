//! Variants of `synced`, which `shell/test.sh --all` runs.

use super::write;
use crate::session::openssh::copied::work;
use crate::session::openssh::leading;
use crate::session::site::{SESSION, Site};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_watch_that_a_notice_ends_has_failed() {
    let site = Site::new();
    let lead = leading(&site, &site.image());
    let there = work(&site);
    write(&site.path("project"), &[("early", "")]);
    let watching = site.start(&["sync", "project", "demo:project", "--watch"]);
    let is_there = || there.join("project/early").exists();
    eventually_within(SESSION, || "the file".to_owned(), is_there);
    site.interrupt("demo", 120);
    watching
        .end()
        .is(255)
        .reports("EC2 takes demo's instance back, and nothing more is sent\n");
    lead.end();
    site.is_saved("demo", 1);
}
