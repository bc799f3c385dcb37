//! Forks: a drive that begins as another one was.

mod wide;

use rustix::process::Signal;
use serde_json::Value;
use xdrive::local::Fault;

use super::json::document;
use super::simulated::{
    SLOW, count, in_the_cloud, paper, plant, traced, with_snapshot, with_volume,
};
use super::site::Site;

/// Makes a saved generation of `drive`.
fn with_generation(site: &Site, drive: &str, generation: u64, kind: &str) {
    let tags = [
        ("Name", drive),
        ("xdrive:drive", drive),
        ("xdrive:generation", &generation.to_string()),
        ("xdrive:image", "an/image"),
        ("xdrive:arch", "x86_64"),
        ("xdrive:note", "its own"),
    ];
    let snapshot = with_snapshot(site, &tags);
    let kind = [("xdrive:kind".to_owned(), kind.to_owned())].into();
    in_the_cloud(site, async |ec2| {
        ec2.tag(snapshot.as_str(), &kind).await.unwrap();
    });
}

fn log(site: &Site, drive: &str) -> Value {
    let logged = site.run(&["log", drive, "--json"]);
    logged.is(0);
    document("log", &logged)
}

#[test]
fn a_fork_has_the_generation_and_the_settings_of_its_source_and_its_own_owner() {
    let site = paper();
    with_generation(&site, "demo", 1, "clean");
    with_generation(&site, "demo", 2, "clean");
    let forked = traced(&site, &["fork", "demo@1", "new"]);
    forked
        .is(0)
        .reports("new is a copy of demo@1: its snapshot (snap-")
        .reports("connect new goes on from generation 1");
    assert_eq!(count(&forked, "CopySnapshot"), 1);
    assert_eq!(count(&forked, "RunInstances"), 0);
    let rows = log(&site, "new");
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["generation"], 1);
    assert_eq!(rows[0]["forked_from"], "demo@1");
    assert_eq!(rows[0]["note"], Value::Null);
    let tags = in_the_cloud(&site, async |ec2| {
        let made = ec2.snapshots(&"new".parse().unwrap()).await.unwrap();
        assert_eq!(made[0].volume.as_ref().unwrap().as_str(), "vol-ffffffff");
        made[0].tags.clone()
    });
    assert_eq!(tags["Name"], "new");
    assert_eq!(tags["xdrive:image"], "an/image");
    assert_eq!(tags["xdrive:arch"], "x86_64");
    assert_ne!(tags["xdrive:op"], "op");
    site.run(&["log", "new"])
        .is(0)
        .prints("clean, forked from demo@1");

    // Without @N the newest; the source is as it was.
    site.run(&["fork", "demo", "other"])
        .is(0)
        .reports("other is a copy of demo@2");
    assert_eq!(site.kinds("demo"), ["snapshot"; 2]);
}

#[test]
fn a_fork_is_refused_where_something_is_there_and_where_nothing_is_to_fork() {
    let site = paper();
    with_generation(&site, "demo", 1, "clean");
    with_generation(&site, "taken", 4, "clean");
    site.run(&["fork", "demo", "taken"])
        .is(2)
        .reports("error: there is a drive taken already")
        .reports("delete taken");
    with_volume(
        &site,
        "us-east-1a",
        &[("Name", "vol"), ("xdrive:drive", "vol")],
    );
    site.run(&["fork", "demo", "vol"])
        .is(2)
        .reports("there is a drive vol already");
    site.run(&["fork", "demo", "demo"])
        .is(2)
        .reports("there is a drive demo already");
    site.run(&["fork", "nothing", "new"])
        .is(69)
        .reports("there is no drive nothing");
    site.run(&["fork", "demo@7", "new"])
        .is(69)
        .reports("demo has no snapshot of generation 7")
        .reports("list demo -v");
    site.run(&["fork", "demo", "new"]).is(0);
    site.run(&["fork", "demo", "new"])
        .is(2)
        .reports("there is a drive new already, a copy of demo@1")
        .reports("connect new goes on with it");
    let copied = site.run(&["copy", "demo"]);
    copied
        .is(2)
        .reports("the region to copy demo to is not named");
}

#[test]
fn a_generation_is_not_worked_on_in_a_drive_that_is_no_fork_of_it() {
    let site = paper();
    let image = site.image();
    let connect = |at: &str| site.run(&["connect", at, "--image", &image, "--", "true"]);
    let look = |at: &str| site.run(&["connect", at, "--image", &image, "--dry-run", "--", "true"]);
    for generation in 1..=4 {
        with_generation(&site, "demo", generation, "clean");
    }
    // A drive of that name which began by itself, and forks of other generations and drives.
    with_generation(&site, "demo.at-3", 1, "clean");
    site.run(&["fork", "demo@4", "demo.at-2"]).is(0);
    with_generation(&site, "other", 1, "clean");
    site.run(&["fork", "other", "demo.at-1"]).is(0);
    for (at, drive) in [
        ("demo@3", "demo.at-3"),
        ("demo@2", "demo.at-2"),
        ("demo@1", "demo.at-1"),
    ] {
        let error = format!("error: there is a drive {drive} already, and it is no fork of {at}\n");
        connect(at)
            .is(2)
            .reports(&error)
            .reports(&format!("connect {drive} opens that one"));
        look(at).is(2).reports(&error);
        assert_eq!(site.kinds(drive), ["snapshot"]);
    }
    // What a fork would be made of, and then the fork.
    look("demo@4")
        .is(0)
        .reports("this would work on demo.at-4, a fork of demo@4\n")
        .prints("demo.at-4 is new: a fork of demo@4, from demo's snapshot (snap-")
        .prints("), generation 4, 8 GiB\n");
    assert!(site.kinds("demo.at-4").is_empty());
    look("demo@9")
        .is(69)
        .reports("error: there is no snapshot of demo@9\n");
    site.run(&["fork", "demo@4", "demo.at-4"]).is(0);
    look("demo@4")
        .is(0)
        .prints("demo.at-4 is restored from its snapshot (snap-");
}

#[test]
fn a_fork_of_what_is_not_a_clean_save_says_so() {
    let site = paper();
    with_generation(&site, "demo", 1, "crashed");
    site.run(&["fork", "demo", "new"])
        .is(0)
        .reports("the host of generation 1 of demo vanished");
    assert_eq!(log(&site, "new")[0]["kind"], "crashed");
    with_generation(&site, "live", 3, "checkpoint");
    site.run(&["fork", "live", "old"])
        .is(0)
        .reports("this is a checkpoint of generation 3");
}

#[test]
fn a_copy_whose_answer_was_lost_is_found_and_not_made_again() {
    let site = paper();
    with_generation(&site, "demo", 1, "clean");
    plant(&site, Fault::answer_lost("CopySnapshot"));
    let forked = traced(&site, &["fork", "demo", "new"]);
    forked.is(0).reports("trying again");
    assert_eq!(count(&forked, "CopySnapshot"), 1);
    assert_eq!(site.kinds("new"), ["snapshot"]);
}

#[test]
fn a_copy_that_is_refused_leaves_nothing() {
    let site = paper();
    with_generation(&site, "demo", 1, "clean");
    let words = "You are not authorized to perform this operation.";
    let denied = Fault::new("CopySnapshot", 403, "UnauthorizedOperation", words);
    plant(&site, denied);
    site.run(&["fork", "demo", "new"])
        .is(77)
        .reports("UnauthorizedOperation");
    assert!(site.kinds("new").is_empty());
}

#[test]
fn a_fork_that_was_killed_after_its_call_is_finished_by_the_same_again() {
    let site = paper();
    with_generation(&site, "demo", 1, "clean");
    site.set(SLOW);
    let mut fork = site.start(&["fork", "demo", "new"]);
    fork.reports("copying to new's snapshot");
    fork.signal(Signal::KILL);
    assert_eq!(fork.end().code(), 128 + 9);
    assert_eq!(site.kinds("new"), ["snapshot"]);
    let again = traced(&site, &["fork", "demo", "new"]);
    again.is(0).reports("new is a copy of demo@1");
    assert_eq!(count(&again, "CopySnapshot"), 0);
    assert_eq!(site.kinds("new"), ["snapshot"]);
}

#[test]
fn a_signal_stops_the_waiting_and_not_the_copy() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let site = paper();
        with_generation(&site, "demo", 1, "clean");
        site.set(SLOW);
        let mut fork = site.start(&["fork", "demo", "new"]);
        fork.reports("copying to new's snapshot");
        fork.signal(signal);
        fork.end().is(75).reports("EC2 goes on with the copy");
        assert_eq!(site.kinds("new"), ["snapshot"], "{signal:?}");
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_fork_and_its_source_go_on_separately() {
    let site = Site::new();
    for word in ["one", "two"] {
        let write = format!("echo {word} >>/work/log");
        site.session("demo", &["sh", "-c", &write]).is(0);
    }
    site.run(&["fork", "demo@1", "new"]).is(0);
    let cat = [
        "connect",
        "new",
        "--",
        "sh",
        "-c",
        "echo mine >>/work/log; cat /work/log",
    ];
    assert_eq!(site.run(&cat).is(0).stdout, "one\nmine\n");
    site.is_saved("new", 2);
    let demo = ["connect", "demo", "--", "cat", "/work/log"];
    assert_eq!(site.run(&demo).is(0).stdout, "one\ntwo\n");
    site.is_saved("demo", 3);

    // NAME@N is a fork that is made once.
    let at = [
        "connect",
        "demo@2",
        "--",
        "sh",
        "-c",
        "echo more >>/work/log; cat /work/log",
    ];
    let first = site.run(&at);
    assert_eq!(first.is(0).stdout, "one\ntwo\nmore\n");
    first.reports("this works on demo.at-2, a fork of demo@2");
    assert_eq!(site.run(&at).is(0).stdout, "one\ntwo\nmore\nmore\n");
    site.is_saved("demo.at-2", 3);
    let rows = log(&site, "demo.at-2");
    assert_eq!(rows[0]["forked_from"], Value::Null);
    assert_eq!(rows[2]["forked_from"], "demo@2");
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_that_is_up_is_forked_as_it_is_now_and_goes_on() {
    let site = Site::with_a_drive();
    let writes = "echo now >/work/note; echo up; exec sleep 600";
    let mut session = site.start(&["connect", "demo", "--", "sh", "-c", writes]);
    session.prints("up");
    site.run(&["fork", "demo", "new", "--now"])
        .is(0)
        .reports("new is a copy of demo@2: its snapshot (snap-")
        .reports("it costs what differs from the saves of demo@2, at most ");
    let rows = log(&site, "new");
    assert_eq!(rows[0]["forked_from"], "demo@2");
    assert_eq!(rows[0]["kind"], "checkpoint");
    let read = site.session("new", &["cat", "/work/note"]);
    assert_eq!(read.is(0).stdout, "now\n");
    assert_eq!(log(&site, "new")[0]["generation"], 3);
    // The one before is what is saved of it.
    site.run(&["fork", "demo", "old"])
        .is(0)
        .reports("old is a copy of demo@1");
    session.signal(Signal::TERM);
    session.end().is(143);
    site.is_saved("demo", 2);
    // Once it is not up any more, its last save is what it is now.
    site.run(&["fork", "demo", "last", "--now"])
        .is(0)
        .reports("last is a copy of demo@2");
}

#[test]
fn a_drive_is_forked_as_it_is_now_only_where_that_is_known() {
    let site = paper();
    with_generation(&site, "demo", 1, "clean");
    site.run(&["fork", "demo@1", "new", "--now"])
        .is(2)
        .reports("demo@1 is a generation that is saved, and --now is what is not")
        .reports("demo --now, without @N");
    with_volume(&site, "us-east-1a", &[]);
    site.run(&["fork", "demo", "new", "--now"])
        .is(75)
        .reports("demo is neither up nor saved: a volume has its newest state")
        .reports("stop demo saves it");
    assert_eq!(site.run(&["list", "new"]).code(), 69);
}
