//! `xdrive delete` and `xdrive rename`: a drive at rest goes, or gets another name, whole.

use std::time::Duration;

use rustix::process::Signal;
use xdrive::local::Fault;

use super::simulated::{SLOW, paper, plant, start_traced, with_saves, with_snapshot, with_volume};
use super::site::{SESSION, Site};
use harness::eventually_within;

#[test]
fn a_drive_is_deleted_with_all_its_saves_and_no_other_is() {
    let site = paper();
    with_saves(&site, "demo", 3);
    with_saves(&site, "train", 1);
    let refused = site.run(&["delete", "demo"]);
    refused
        .is(2)
        .reports("demo: 3 snapshots of generations 1 to 3 go; that frees about $0.00 a month\n")
        .reports("error: nothing is deleted without a yes, and nobody can be asked here\n")
        .reports("hint: --yes answers\n");
    assert_eq!(site.kinds("demo"), ["snapshot"; 3]);
    let deleted = site.run(&["delete", "demo", "--yes"]);
    deleted
        .is(0)
        .reports("demo is deleted; where the account has a Recycle Bin rule");
    assert_eq!(site.kinds("demo"), [""; 0]);
    assert_eq!(site.kinds("train"), ["snapshot"]);
    let again = site.run(&["delete", "demo", "--yes"]);
    again.is(69).reports("error: there is no drive demo");
}

/// The number of saves: so many that a process which is given no processor for a while comes before
/// half of them.
const SAVES: usize = 40;

#[test]
fn a_deletion_stops_between_two_calls_once_a_signal_asks_for_the_end() {
    for (call, signal) in [
        ("CreateTags", Signal::INT),
        ("DeleteSnapshot", Signal::TERM),
    ] {
        let site = paper();
        with_saves(&site, "demo", SAVES);
        site.set(SLOW);
        let mut delete = start_traced(&site, &["delete", "demo", "--yes"]);
        delete.reports(call);
        delete.signal(signal);
        delete
            .end()
            .is(75)
            .reports("stopped before the end of: delete demo")
            .reports("the same again goes on: ");
        let left = site.kinds("demo").len();
        assert!(left > SAVES / 2, "{call}: {left}");
        site.run(&["delete", "demo", "--yes"]).is(0);
        // What is deleted is listed for a while.
        let is_gone = || site.kinds("demo").is_empty();
        let left = || format!("{call}: {:?}", site.kinds("demo"));
        eventually_within(Duration::from_mins(1), left, is_gone);
    }
}

/// The fault: it ended as a shell that a signal ends, and not as a whole drive's deletion does.
#[test]
fn a_generations_deletion_stops_between_two_calls_likewise() {
    let site = paper();
    for number in 0..SAVES {
        let number = number.to_string();
        with_snapshot(&site, &[("xdrive:generation", "1"), ("number", &number)]);
    }
    with_snapshot(&site, &[("xdrive:generation", "2")]);
    site.set(SLOW);
    let mut delete = start_traced(&site, &["delete", "demo@1", "--yes"]);
    delete.reports("DeleteSnapshot");
    delete.signal(Signal::TERM);
    delete
        .end()
        .is(75)
        .reports("stopped before the end of: delete demo@1\n")
        .reports("the same again goes on: xdrive --local delete demo@1\n");
    let left = site.kinds("demo").len();
    assert!(left > SAVES / 2, "{left}");
}

#[test]
fn a_save_made_while_delete_asks_stays() {
    let site = paper();
    with_saves(&site, "demo", 1);
    let mut pty = site.in_terminal(&["delete", "demo"]);
    pty.see("demo: 1 snapshot of generation 1 go");
    pty.see("type demo to delete it for good:");
    with_snapshot(&site, &[("xdrive:generation", "2")]);
    pty.type_in("demo\r");
    assert_eq!(pty.wait_within(SESSION), 76, "{}", pty.contents());
    pty.see("somebody has used the drive meanwhile: ");
    pty.see("hint: xdrive --local delete demo");
    assert_eq!(site.kinds("demo"), ["snapshot"; 2]);
}

#[test]
fn the_save_of_a_former_generation_is_deleted_and_the_newest_never() {
    let site = paper();
    with_saves(&site, "demo", 3);
    let deleted = site.run(&["delete", "demo@1", "--yes"]);
    deleted
        .is(0)
        .reports("demo: 1 snapshot of generation 1 goes; that frees at most $0.00 a month\n")
        .reports("), generation 1\n");
    assert_eq!(site.kinds("demo"), ["snapshot"; 2]);
    let newest = site.run(&["delete", "demo@3", "--yes"]);
    newest
        .is(2)
        .reports("error: generation 3 is the newest of demo\n")
        .reports("delete demo deletes the whole drive\n");
    let gone = site.run(&["delete", "demo@1", "--yes"]);
    gone.is(69)
        .reports("error: demo has no snapshot of generation 1\n");
    assert_eq!(site.kinds("demo"), ["snapshot"; 2]);
}

#[test]
fn a_drive_that_is_not_at_rest_is_neither_deleted_nor_renamed() {
    let site = paper();
    with_volume(&site, "us-east-1a", &[]);
    for words in [
        &["delete", "demo", "--yes"][..],
        &["delete", "demo@1", "--yes"],
        &["rename", "demo", "lab"],
    ] {
        let refused = site.run(words);
        refused
            .is(75)
            .reports("error: demo is not at rest: it has a volume\n")
            .reports("stop demo saves it first\n");
    }
    assert_eq!(site.kinds("demo"), ["volume"]);
}

/// EC2 refuses such a call as the drive is given up.
fn denied(action: &str) -> Fault {
    let words = "You are not authorized to perform this operation.";
    Fault::new(action, 403, "UnauthorizedOperation", words)
}

#[test]
fn a_deletion_that_was_interrupted_is_finished_and_nobody_connects_meanwhile() {
    let site = paper();
    with_saves(&site, "demo", 3);
    plant(&site, denied("DeleteSnapshot"));
    let interrupted = site.run(&["delete", "demo", "--yes"]);
    interrupted
        .is(77)
        .reports("UnauthorizedOperation")
        .reports("the same again goes on: xdrive --local delete demo\n");
    assert_eq!(site.kinds("demo"), ["snapshot"; 3]);
    let image = site.image();
    let connect = site.run(&["connect", "demo", "--image", &image, "--", "true"]);
    connect
        .is(76)
        .reports("error: the drive is being deleted: what is left of it here is not mounted")
        .reports("delete demo\n");
    site.run(&["rename", "demo", "lab"]).is(76);
    site.run(&["delete", "demo", "--yes"]).is(0);
    assert_eq!(site.kinds("demo"), [""; 0]);
}

#[test]
fn a_drive_gets_another_name_with_all_its_saves() {
    let site = paper();
    with_saves(&site, "demo", 3);
    with_saves(&site, "train", 1);
    for (to, error) in [
        ("train", "error: there is a drive train already\n"),
        ("demo", "error: demo has that name\n"),
    ] {
        site.run(&["rename", "demo", to]).is(2).reports(error);
    }
    let renamed = site.run(&["rename", "demo", "lab"]);
    renamed.is(0).reports("demo is called lab now: ");
    assert_eq!(site.kinds("lab"), ["snapshot"; 3]);
    assert_eq!(site.kinds("demo"), [""; 0]);
    assert_eq!(site.drive("lab")["generation"], 3);
    let gone = site.run(&["rename", "demo", "lab"]);
    gone.is(69).reports("error: there is no drive demo");
    // And back.
    site.run(&["rename", "lab", "demo"]).is(0);
    assert_eq!(site.kinds("demo"), ["snapshot"; 3]);
}

/// EC2 refuses the new name of the drive's snapshot of that generation.
fn unnamed(site: &Site, drive: &str, generation: u64) -> Fault {
    let drive = site.drive(drive);
    let mut things = drive["things"].as_array().unwrap().iter();
    let of_it = things.find(|it| it["generation"] == generation).unwrap();
    let matching = [
        ("ResourceId.1", of_it["id"].as_str().unwrap()),
        ("Tag.1.Key", "Name"),
    ];
    let matching = matching.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Fault {
        matching: matching.into(),
        ..denied("CreateTags")
    }
}

#[test]
fn a_rename_that_was_interrupted_does_not_join_a_drive_that_was_made_of_the_new_name() {
    let site = paper();
    with_saves(&site, "demo", 3);
    // After the marks, before the first name.
    plant(&site, unnamed(&site, "demo", 3));
    site.run(&["rename", "demo", "lab"]).is(77);
    assert_eq!(site.kinds("lab"), [""; 0]);
    with_saves(&site, "lab", 1);
    let refused = site.run(&["rename", "demo", "lab"]);
    refused
        .is(76)
        .reports("error: there is another drive lab now, with its snapshot (snap-")
        .reports("hint: xdrive --local rename lab ANOTHER\n")
        .reports("xdrive --local rename demo ANOTHER\n");
    assert_eq!(site.kinds("lab"), ["snapshot"]);
    assert_eq!(site.kinds("demo"), ["snapshot"; 3]);
    // Either of the two may go elsewhere.
    site.run(&["rename", "lab", "other"]).is(0);
    site.run(&["rename", "demo", "lab"]).is(0);
    assert_eq!(site.kinds("lab"), ["snapshot"; 3]);
    assert_eq!(site.kinds("other"), ["snapshot"]);
    plant(&site, unnamed(&site, "lab", 3));
    site.run(&["rename", "lab", "next"]).is(77);
    with_volume(
        &site,
        "us-east-1a",
        &[("Name", "next"), ("xdrive:drive", "next")],
    );
    site.run(&["rename", "lab", "next"])
        .is(76)
        .reports("error: there is another drive next now, with its volume (vol-");
    site.run(&["rename", "lab", "demo"]).is(0);
    assert_eq!(site.kinds("demo"), ["snapshot"; 3]);
    assert_eq!(site.kinds("next"), ["volume"]);
}

#[test]
fn a_rename_that_was_interrupted_leaves_the_newest_first_under_the_new_name_and_is_finished() {
    let site = paper();
    with_saves(&site, "demo", 3);
    // After the marks, and the name of the newest.
    plant(&site, unnamed(&site, "demo", 2));
    let interrupted = site.run(&["rename", "demo", "lab"]);
    interrupted
        .is(77)
        .reports("the same again goes on: xdrive --local rename demo lab\n");
    assert_eq!(site.kinds("lab"), ["snapshot"]);
    assert_eq!(site.drive("lab")["generation"], 3);
    let image = site.image();
    let connect = site.run(&["connect", "demo", "--image", &image, "--", "true"]);
    connect
        .is(76)
        .reports("error: the drive is being renamed to lab: what is left of it here is not")
        .reports("rename demo lab\n");
    site.run(&["rename", "demo", "lab"]).is(0);
    assert_eq!(site.kinds("lab"), ["snapshot"; 3]);
    assert_eq!(site.kinds("demo"), [""; 0]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_renamed_drive_goes_on_and_is_deleted_once_its_name_is_typed() {
    let site = Site::new();
    site.session("demo", &["sh", "-c", "echo kept >/work/note"])
        .is(0);
    site.run(&["rename", "demo", "lab"]).is(0);
    let there = site.session("lab", &["cat", "/work/note"]);
    assert_eq!(there.is(0).stdout, "kept\n");
    site.is_saved("lab", 2);
    let mut pty = site.in_terminal(&["delete", "lab"]);
    pty.see("type lab to delete it for good:");
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_within(SESSION), 143);
    for (answer, code, kinds) in [("demo\r", 130, 2), ("lab\r", 0, 0)] {
        let mut pty = site.in_terminal(&["delete", "lab"]);
        pty.see("type lab to delete it for good:");
        pty.type_in(answer);
        let ended = pty.wait_within(SESSION);
        assert_eq!(ended, code, "{}", pty.contents());
        site.is_saved("lab", kinds);
    }
}
