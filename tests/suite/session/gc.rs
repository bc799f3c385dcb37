//! `xdrive gc`: drives in use are left alone, unfinished ones saved, old snapshots deleted on
//! request.

use rustix::process::Signal;
use serde_json::Value;

use super::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn gc_finishes_what_is_unused_and_prints_beforehand_what_it_would_do() {
    let site = Site::new();
    site.run(&["gc"])
        .is(0)
        .prints("nothing is left of any drive of yours");
    site.run(&["gc", "demo"])
        .is(69)
        .reports("there is no drive demo");
    site.session("demo", &["true"]).is(0);
    let image = site.image();
    let words = [
        "connect",
        "demo",
        "--image",
        &image,
        "--",
        "sh",
        "-c",
        "echo begun; sleep 1000",
    ];
    let mut session = site.start(&words);
    session.prints("begun\n");

    // In use, then left behind by a kill: its lease is not over.
    let is_left_alone = || {
        let things = site.kinds("demo");
        for arguments in [&["gc", "--dry-run"][..], &["gc"]] {
            site.run(arguments).is(0).prints("demo: in use until 20");
        }
        assert_eq!(site.kinds("demo"), things);
    };
    is_left_alone();
    session.signal(Signal::KILL);
    session.end();
    is_left_alone();
    site.run(&["stop", "demo"]).is(0);

    // Two snapshots: the older one is deleted only on request.
    let said = site.run(&["gc", "--dry-run", "--keep-last", "1"]);
    said.is(0)
        .prints("demo: saved\n  would delete superseded snap-");
    let said = site.run(&["gc"]);
    said.is(0).prints("demo: saved\ndemo   saved, generation 2");
    assert_eq!(site.kinds("demo"), ["snapshot", "snapshot"]);
    let said = site.run(&["gc", "--keep-last", "1", "--json"]);
    let told: Value = serde_json::from_str(&said.is(0).stdout).unwrap();
    assert_eq!(told["drives"][0]["result"], "saved", "{told}");
    assert_eq!(told["drives"][0]["left"]["generation"], 2, "{told}");
    let step = told["drives"][0]["steps"][0].as_str().unwrap();
    assert!(step.starts_with("deleted old snapshot (snap-"), "{told}");
    site.is_saved("demo", 1);
}
