//! `xdrive gc`: drives in use are left alone, unfinished ones saved, old snapshots deleted on
//! request.

use std::time::Duration;

use harness::cloud::{self, launch_order};
use harness::evidence::may_terminate;
use rustix::process::Signal;
use serde_json::Value;
use xdrive::ec2::{InstanceState, LaunchOrder};
use xdrive::local::Fault;

use super::json::document;
use super::simulated::{SLOW, in_the_cloud, paper, plant, start_traced, with_saves, with_volume};
use super::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn gc_finishes_what_is_unused_and_prints_beforehand_what_it_would_do() {
    let empty = Site::new();
    empty
        .run(&["gc"])
        .is(0)
        .prints("nothing is left of any drive of yours");
    empty
        .run(&["gc", "demo"])
        .is(69)
        .reports("there is no drive demo");
    let site = Site::with_a_drive();
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
    let would = site.run(&["connect", "demo", "--dry-run", "--json"]);
    let would = document("dry-run", would.is(0));
    assert_eq!(would["action"], "join", "{would}");
    assert_eq!(would["instance"], site.instance("demo"));
    session.signal(Signal::KILL);
    session.end();
    is_left_alone();
    site.run(&["stop", "demo"]).is(0);

    // Two snapshots: the older one is deleted only on request.
    let ended = site.run(&["gc", "--dry-run", "--keep-last", "1"]);
    ended
        .is(0)
        .prints("demo: saved\n  would delete demo's superseded snapshot (snap-");
    let ended = site.run(&["gc"]);
    ended
        .is(0)
        .prints("demo: saved\ndemo   saved, generation 2");
    assert_eq!(site.kinds("demo"), ["snapshot", "snapshot"]);
    let ended = site.run(&["gc", "--keep-last", "1", "--json"]);
    let printed: Value = serde_json::from_str(&ended.is(0).stdout).unwrap();
    assert_eq!(printed["drives"][0]["result"], "saved", "{printed}");
    assert_eq!(printed["drives"][0]["left"]["generation"], 2, "{printed}");
    let step = printed["drives"][0]["steps"][0].as_str().unwrap();
    assert!(step.starts_with("deleted old snapshot (snap-"), "{printed}");
    site.is_saved("demo", 1);
}

#[test]
fn a_drive_that_fails_does_not_keep_gc_from_the_others() {
    let site = paper();
    with_saves(&site, "demo", 2);
    with_saves(&site, "train", 2);
    let words = "You are not authorized to perform this operation.";
    let denied = Fault {
        matching: [("Filter.1.Value.1".to_owned(), "demo".to_owned())].into(),
        ..Fault::new("DescribeVolumes", 403, "UnauthorizedOperation", words)
    };
    plant(&site, denied);
    let gc = site.run(&["gc", "--keep-last", "1"]);
    gc.is(77)
        .reports("UnauthorizedOperation")
        .prints("demo: not finished\n")
        .prints("train: saved\n  deleted train's old snapshot (snap-");
    assert_eq!(site.kinds("demo"), ["snapshot"; 2]);
    assert_eq!(site.kinds("train"), ["snapshot"]);
}

#[test]
fn gc_deletes_no_more_old_saves_once_a_signal_asks_for_the_end() {
    /// The number of saves: so many that a process which is given no processor for a while comes
    /// before half of them.
    const SAVES: usize = 60;
    let site = paper();
    with_saves(&site, "demo", SAVES);
    site.set(SLOW);
    let mut gc = start_traced(&site, &["gc", "--keep-last", "1"]);
    gc.reports("DeleteSnapshot");
    gc.signal(Signal::TERM);
    let ended = gc.end();
    let deleted = ended.is(143).stdout.matches("deleted demo's old").count();
    // What was deleted before the signal came: this process may have to wait for a processor.
    assert!((1..SAVES / 2).contains(&deleted), "{ended:?}");
}

#[test]
fn gc_that_is_terminated_ends_with_the_signals_code() {
    let site = paper();
    with_saves(&site, "demo", 2);
    let tags = [("xdrive:base", "2"), ("xdrive:generation", "3")];
    with_volume(&site, "us-east-1a", &tags);
    site.set(SLOW);
    let mut gc = site.start(&["gc", "--keep-last", "1"]);
    gc.reports("started demo's snapshot");
    gc.signal(Signal::TERM);
    gc.end().is(143).prints("demo   volume, generation 3");
    assert_eq!(site.kinds("demo").len(), 4);
}

#[test]
fn gc_does_not_call_what_is_deleted_saved() {
    let site = paper();
    let order = LaunchOrder {
        tags: cloud::tags(&[
            ("xdrive:drive", "gone"),
            ("xdrive:session", "an earlier one"),
            ("xdrive:owner", "arn:aws:iam::000000000000:user/local"),
        ]),
        ..launch_order("gone")
    };
    in_the_cloud(&site, async |ec2| {
        let instance = ec2.launch(&order).await.unwrap().id;
        ec2.terminate(may_terminate(&instance)).await.unwrap();
        // EC2 lists it for an hour.
        let state = async || ec2.instance(&instance).await.unwrap().unwrap().state;
        while state().await != InstanceState::Terminated {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    site.run(&["gc"])
        .is(0)
        .prints("nothing is left of any drive of yours");
    let printed = site.run(&["gc", "--json"]);
    let printed: Value = serde_json::from_str(&printed.is(0).stdout).unwrap();
    assert_eq!(printed["drives"], Value::Array(Vec::new()), "{printed}");
    site.run(&["gc", "gone"])
        .is(69)
        .reports("there is no drive gone");
}
