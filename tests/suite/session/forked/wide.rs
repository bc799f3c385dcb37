//! Variants of `forked`, which `shell/test.sh --all` runs.

use std::fs;

use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_that_is_up_is_forked_as_it_was_saved() {
    let site = Site::new();
    site.session("demo", &["sh", "-c", "echo one >/work/log"])
        .is(0);
    let wait =
        "echo two >>/work/log; sync; echo ready; while [ ! -e /work/go ]; do sleep 0.1; done";
    let mut up = site.start(&["connect", "demo", "--", "sh", "-c", wait]);
    up.prints("ready\n");
    site.run(&["fork", "demo", "new"])
        .is(0)
        .reports("demo is up: the copy has generation 1, and nothing that changed since");
    let shown = site.run(&["connect", "new", "--", "cat", "/work/log"]);
    assert_eq!(shown.is(0).stdout, "one\n");
    let go = site.path("go");
    fs::write(&go, "").unwrap();
    site.run(&["cp", go.to_str().unwrap(), "demo:/work/go"])
        .is(0);
    up.end().is(0);
    site.is_saved("demo", 2);
}
