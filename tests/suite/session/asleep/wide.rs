//! Variants of `asleep`, which `shell/test.sh --all` runs.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use xdrive::local::Fault;

use super::left;
use crate::session::connection_lost::recorded;
use crate::session::json::document;
use crate::session::simulated::plant;
use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_that_is_up_is_asked_itself_and_an_older_generation_its_snapshot() {
    let (site, _) = left();
    let words = ["connect", "demo", "--", "sh", "-c"];
    let script = "echo second >/work/a/b; echo begun; sleep 1000";
    let mut running = site.start(&[&words[..], &[script]].concat());
    running.prints("begun\n");
    let shown = site.run(&["cat", "demo:a/b"]);
    assert_eq!(shown.is(0).stdout, "second\n");
    let shown = site.run(&["cat", "demo@1:a/b", "demo@1:/root/note"]);
    assert_eq!(shown.is(0).stdout, "first\nnote\n");
    let listed = site.run(&["ls", "demo:a", "--json"]);
    let found: Value = serde_json::from_str(&listed.is(0).stdout).unwrap();
    assert_eq!(found[0]["size"], 7);
    running.signal(Signal::TERM);
    running.end().is(143);
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_that_was_just_saved_is_read_though_lists_still_have_its_host() {
    let (site, _) = left();
    let script = "echo second >/work/a/b; sleep 10";
    let words = ["connect", "demo", "--", "sh", "-c", script];
    site.run(&words).is(0);
    // Longer than the save took, and not than the drive was up: they show it as it was then.
    site.set("stale-lists-ms = 10000\n");
    let shown = site.run(&["cat", "demo:a/b"]);
    assert_eq!(shown.is(0).stdout, "second\n");
    shown.reports(" has ended\n").reports("generation 2: ");
    site.set("");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_failed_read_is_one_error() {
    let (site, _) = left();
    for (words, code, error) in [
        (
            &["cat", "demo:nothing"][..],
            1,
            "nothing: no such file or folder",
        ),
        (&["cat", "demo:a"], 1, "a: it is a folder"),
        (
            &["cat", "demo:dangling"],
            1,
            "dangling: no such file or folder",
        ),
        (&["cat", "demo:loop"], 1, "loop: too many links lead to it"),
        (&["cat", "demo:a/b/c"], 1, "a/b/c: no such file or folder"),
        (
            &["cat", "demo@9:a/b"],
            69,
            "demo has no snapshot of generation 9",
        ),
        (&["cat", "other:a/b"], 69, "there is no drive other"),
        (&["cat", "a/b"], 2, "a/b is no place on a drive"),
        (&["ls", "demo@x:a"], 2, "a generation is a number"),
        (
            &["cp", "Cargo.toml", "demo@1:a"],
            2,
            "nothing can be written to it",
        ),
    ] {
        site.run(words).is(code).reports(error);
    }
    // A reader that leaves early is no failure of the drive's.
    let program = site.command(&["cat", "demo:sparse"]);
    let mut child = { program }.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
    // Every block, as some are read ahead and never needed.
    let words = "You are not authorized to perform this operation.";
    let fault = Fault {
        times: 1000,
        ..Fault::new("GetSnapshotBlock", 403, "AccessDeniedException", words)
    };
    plant(&site, fault);
    site.run(&["cat", "demo:a/b"]).is(77).reports(words);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_generation_has_its_time_its_host_and_its_note() {
    let site = Site::with_a_drive();
    let words = ["connect", "demo", "-m", "with a note", "--", "true"];
    site.run(&words).is(0);
    site.run(&["connect", "demo", "--", "true"]).is(0);
    site.run(&["note", "demo", "a later one"])
        .is(0)
        .reports("the note is on generation 3 of demo");
    site.run(&["note", "demo@7", "none"])
        .is(69)
        .reports("demo has no snapshot of generation 7");
    site.run(&["note", "demo", "two\nlines"])
        .is(2)
        .reports("a note is one line");
    let saved = document("log", site.run(&["log", "demo", "--json"]).is(0));
    let of = |name: &str| -> Vec<Value> {
        let all = saved.as_array().unwrap().iter();
        all.map(|row| row[name].clone()).collect()
    };
    assert_eq!(of("generation"), [3, 2, 1]);
    assert_eq!(
        of("note"),
        ["a later one".into(), "with a note".into(), Value::Null]
    );
    for row in saved.as_array().unwrap() {
        let host = row["host"].as_str().unwrap();
        assert!(host.contains(" in us-east-1"), "{row}");
        assert!(row["seconds"].as_i64().unwrap() < 600, "{row}");
    }
    let shown = site.run(&["log", "demo"]);
    shown.is(0).prints("  clean\n   a later one\n2  ");
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_snapshot_of_a_drive_that_lost_its_power_is_read_with_its_journal() {
    let site = Site::with_a_drive();
    let script = "mkdir /work/a; echo kept >/work/a/b; echo gone >/work/c; sync
        rm /work/c; echo more >/work/a/d; sync; echo begun; sleep 1000";
    let mut running = site.start(&["connect", "demo", "--", "sh", "-c", script]);
    running.prints("begun\n");
    let init = recorded(&site, "init.json");
    running.signal(Signal::KILL);
    kill_process(init, Signal::KILL).unwrap();
    drop(running.end());
    site.run(&["stop", "demo"])
        .is(0)
        .reports("saving what was synced");
    let saved = document("log", site.run(&["log", "demo", "--json"]).is(0));
    assert_eq!([&saved[0]["kind"], &saved[1]["kind"]], ["crashed", "clean"]);
    let shown = site.run(&["cat", "demo:a/b", "demo:a/d"]);
    assert_eq!(shown.is(0).stdout, "kept\nmore\n");
    let listed = site.run(&["ls", "demo:"]);
    assert_eq!(listed.is(0).stdout.lines().count(), 1, "{}", listed.stdout);
    site.has_no_leaks();
}
