//! `connect --discard`: a session that saves nothing, and the drive as it was before.

mod wide;

use rustix::process::Signal;
use serde_json::Value;
use xdrive::ec2::VolumeOrder;
use xdrive::ids::SnapshotId;

use super::simulated::{in_the_cloud, paper, traced, with_saves, with_snapshot, with_volume};
use super::site::{Running, SESSION, Site};
use harness::cloud::{made_volume, tags, volume_order};
use harness::eventually_within;
use harness::evidence::may_prune;

/// A drive with a file that has the word `old`.
fn with_a_file() -> Site {
    let site = Site::with_a_drive();
    let wrote = site.run(&["connect", "demo", "--", "sh", "-c", "echo old >/work/words"]);
    wrote.is(0);
    site.is_saved("demo", 2);
    site
}

const SHOW: [&str; 2] = ["cat", "/work/words"];

/// All that there is of the drive.
fn things(site: &Site) -> Value {
    site.drive("demo")["things"].clone()
}

/// A session that discards, has synced another word on the drive, and waits.
fn discarding(site: &Site) -> Running {
    let script = "echo new >/work/words; touch /tried; sync; echo began; sleep 1000";
    let mut session = site.start(&[
        "connect",
        "demo",
        "--discard",
        "-y",
        "--",
        "sh",
        "-c",
        script,
    ]);
    session.prints("began\n");
    session
}

/// Checks that the drive is as it was, with the `old` word, after one more session.
fn is_as_it_was(site: &Site, before: &Value) {
    eventually_within(
        SESSION,
        || format!("{before} alone, but {}", things(site)),
        || things(site) == *before,
    );
    let next = site.run(&[&["connect", "demo", "--"][..], &SHOW].concat());
    assert_eq!(next.is(0).stdout, "old\n");
    let tried = site.run(&["connect", "demo", "--", "ls", "/"]);
    assert!(!tried.is(0).stdout.contains("tried"), "{}", tried.stdout);
    site.is_saved("demo", 4);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_discarded_session_leaves_the_drive_as_it_was() {
    let site = with_a_file();
    let before = things(&site);
    let script = "cat /work/words; echo new >/work/words; touch /tried; sync; exit 7";
    let words = [
        "connect",
        "demo",
        "--discard",
        "--yes",
        "--",
        "sh",
        "-c",
        script,
    ];
    let ended = site.run(&words);
    assert_eq!(ended.is(7).stdout, "old\n");
    ended
        .reports("nothing of this session on demo will be saved: go on? [y/N] yes\n")
        .reports("nothing of this session will be saved; asleep longer than 15 min ends it\n")
        .reports("), to be thrown away")
        .reports("terminated demo's instance (i-")
        .reports("deleted demo's volume (vol-")
        .reports("demo is as it was: what this session changed is discarded\n");
    for never in [
        "started demo's snapshot",
        "announce",
        "container stopped",
        "is saved",
    ] {
        assert!(!ended.stderr.contains(never), "{never}: {}", ended.stderr);
    }
    assert_eq!(things(&site), before, "nothing was made or is left");
    // A signal ends it likewise.
    let session = discarding(&site);
    session.signal(Signal::TERM);
    session
        .end()
        .is(143)
        .reports("demo is as it was: what this session changed is discarded\n");
    is_as_it_was(&site, &before);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn one_that_was_killed_is_ended_by_the_next_run() {
    let site = with_a_file();
    let killed = || {
        let session = discarding(&site);
        session.signal(Signal::KILL);
        assert_eq!(session.end().code(), 128 + 9);
        assert_eq!(site.drive("demo")["state"], "throwaway");
    };
    let before = things(&site);
    killed();
    site.run(&["stop", "demo"])
        .is(0)
        .reports("deleted demo's volume (vol-")
        .reports("demo is saved: its snapshot (snap-");
    assert_eq!(things(&site), before, "nothing was made or is left");

    killed();
    let again = site.run(&[&["connect", "demo", "--discard", "-y", "--"][..], &SHOW].concat());
    assert_eq!(again.is(0).stdout, "old\n");
    assert_eq!(things(&site), before, "nothing was made or is left");

    killed();
    let next = site.run(&[&["connect", "demo", "--"][..], &SHOW].concat());
    assert_eq!(next.is(0).stdout, "old\n");
    next.reports("terminated demo's instance (i-")
        .reports("launched demo's instance (i-")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 3);
}

/// A connect that is to discard, and that makes nothing.
fn refused(site: &Site, flags: &[&str], code: i32) -> super::site::Ended {
    let all = [&["connect", "demo", "--discard"], flags, &["--", "true"]].concat();
    let ended = traced(site, &all);
    ended.is(code);
    for call in ["RunInstances", "CreateVolume", "CreateTags"] {
        assert_eq!(super::simulated::count(&ended, call), 0, "{call}");
    }
    ended
}

#[test]
fn a_drive_that_cannot_be_tried_out_is_refused_before_anything_is_made() {
    let site = paper();
    refused(&site, &["-y"], 69)
        .reports("error: nothing of demo is saved yet: there is nothing to try out\n")
        .reports("hint: xdrive --local connect demo begins it\n");
    with_saves(&site, "demo", 2);
    refused(&site, &[], 2)
        .reports("error: nothing is thrown away without a yes, and nobody can be asked here\n")
        .reports("hint: --yes answers\n");
    for flags in [
        &["--keep", "8h"][..],
        &["--resume"],
        &["--checkpoint", "1h"],
        &["--from", "empty"],
        &["-m", "a note"],
        &["--dry-run"],
    ] {
        let flags = [&["-y"], flags].concat();
        refused(&site, &flags, 2).reports("cannot be used with");
    }
    let fork = site.run(&["connect", "demo@1", "--discard", "-y", "--", "true"]);
    fork.is(2)
        .reports("error: --discard is for the newest of a drive, not for NAME@N\n");
    let run = site.run(&["run", "demo", "-d", "--discard", "-y", "--", "true"]);
    run.is(2)
        .reports("error: --discard is for a session, and a run needs none\n");
    with_volume(&site, "us-east-1a", &[("xdrive:generation", "3")]);
    refused(&site, &["-y"], 75)
        .reports("error: demo is not wholly saved: it has its volume (vol-")
        .reports("stop demo saves it first");
}

/// A free volume that a session, which is over, was to throw away.
fn thrown_away(site: &Site, from: &SnapshotId) -> String {
    let own = [
        ("Name", "demo"),
        ("xdrive:drive", "demo"),
        ("xdrive:session", "an earlier one"),
        ("xdrive:discard", "an earlier one"),
        ("xdrive:owner", "arn:aws:iam::000000000000:user/local"),
        ("xdrive:base", "1"),
        ("xdrive:generation", "1"),
    ];
    let order = VolumeOrder {
        snapshot: Some(from.clone()),
        ..volume_order(&format!("from {from}"), tags(&own))
    };
    in_the_cloud(site, async |ec2| {
        made_volume(&ec2, &order).await.unwrap().to_string()
    })
}

#[test]
fn gc_deletes_what_was_left_to_be_thrown_away_and_nothing_else() {
    let site = paper();
    let newest = with_snapshot(&site, &[]);
    let volume = thrown_away(&site, &newest);
    assert_eq!(site.kinds("demo"), ["throwaway", "snapshot"]);
    assert_eq!(site.drive("demo")["state"], "saved");
    assert_eq!(site.drive("demo")["generation"], 1);
    site.run(&["list", "demo", "-v"])
        .is(0)
        .prints(&format!(
            "throwaway  {volume}  available, 8 GiB, in us-east-1a, made from"
        ))
        .prints("generation 1 and never saved\n");
    // It is nothing to go on from.
    let from = site.run(&[
        "connect",
        "demo",
        "--from",
        &volume,
        "--dry-run",
        "--",
        "true",
    ]);
    from.is(76).reports("no such volume");
    let would = site.run(&["gc", "--dry-run"]);
    would
        .is(0)
        .prints(&format!("would delete demo's volume ({volume})"));
    site.run(&["gc"]).is(0).prints("demo: saved");
    assert_eq!(site.kinds("demo"), ["snapshot"]);
}

#[test]
fn one_whose_snapshot_is_gone_is_kept_and_reported() {
    let site = paper();
    let origin = with_snapshot(&site, &[]);
    let volume = thrown_away(&site, &origin);
    with_snapshot(&site, &[("xdrive:generation", "2")]);
    in_the_cloud(&site, async |ec2| {
        ec2.delete_snapshot(may_prune(&origin)).await.unwrap();
    });
    for words in [&["gc"][..], &["stop", "demo"]] {
        site.run(words)
            .is(0)
            .reports(&format!(
                "demo's volume ({volume}) is kept: it was to be thrown away"
            ))
            .reports(&format!(
                "aws ec2 delete-volume --volume-id {volume}  deletes it\n"
            ));
        assert_eq!(site.kinds("demo"), ["throwaway", "snapshot"]);
    }
}
