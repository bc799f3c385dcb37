//! Variants of `discarded`, which `shell/test.sh --all` runs.

use rustix::process::Signal;
use serde_json::Value;

use super::{discarding, is_as_it_was, things, with_a_file};
use crate::session::site::{SESSION, Site};

/// The id of the volume that is thrown away.
fn thrown_volume(site: &Site) -> Option<Value> {
    let things = things(site);
    let mut things = things.as_array().unwrap().iter();
    let thrown = things.find(|thing| thing["kind"] == "throwaway")?;
    Some(thrown["id"].clone())
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn who_comes_from_another_laptop_meets_it_and_joins_nothing() {
    let site = with_a_file();
    let other = site.other_laptop();
    let before = things(&site);
    let session = discarding(&site);
    let volume = thrown_volume(&site).unwrap();
    assert_eq!(site.drive("demo")["state"], "throwaway");
    assert_eq!(site.drive("demo")["generation"], 2);
    for words in [
        &["connect", "demo", "--", "true"][..],
        &["connect", "demo", "--discard", "-y", "--", "true"],
    ] {
        other
            .run(words)
            .is(75)
            .reports("error: demo is in use on its instance (i-")
            .reports(", which discards what it changes, since ")
            .reports("hint: it saves nothing; xdrive --local stop demo ends it from here\n");
    }
    // What is on the drive is what is saved.
    let saved = other.run(&["cat", "demo:/work/words"]);
    assert_eq!(saved.is(0).stdout, "old\n");
    let up = other.run(&["cp", "small.tar", "demo:/work/"]);
    up.is(69).reports("demo is not up");
    for words in [
        &["delete", "demo", "--yes"][..],
        &["delete", "demo@1", "--yes"],
        &["rename", "demo", "lab"],
    ] {
        other
            .run(words)
            .is(75)
            .reports("error: demo is not at rest");
    }
    other.run(&["gc"]).is(0).prints("demo: in use until 20");
    assert_eq!(thrown_volume(&site).as_ref(), Some(&volume));

    // It can be ended from there, and has nothing to save.
    let stopped = other.run(&["stop", "demo", "--json"]);
    let stopped: Value = serde_json::from_str(&stopped.is(0).stdout).unwrap();
    assert_eq!(stopped["generation"], 2, "{stopped}");
    let ended = session.end();
    assert_ne!(ended.code(), 0, "{}", ended.stderr);
    is_as_it_was(&site, &before);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ec2_that_takes_the_instance_ends_it_and_nothing_goes_on_elsewhere() {
    let site = with_a_file();
    site.configure("resume = true\ncheckpoint = \"15s\"\nkeep = \"8h\"\n");
    let before = things(&site);
    let session = discarding(&site);
    site.interrupt("demo", 20);
    let ended = session.end();
    ended
        .is(75)
        .reports("EC2 took demo's instance (i-")
        .reports("demo is as it was: what this session changed is discarded\n")
        .reports("connect demo --discard begins anew from the saved drive\n");
    assert!(!ended.stderr.contains("checkpoint"), "{}", ended.stderr);
    is_as_it_was(&site, &before);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_terminal_is_asked_and_a_shell_is_not_left_running() {
    let site = with_a_file();
    let before = things(&site);
    let question = "nothing of this session on demo will be saved: go on? [y/N]";
    let mut pty = site.in_terminal(&["connect", "demo", "--discard"]);
    pty.see_within(SESSION, question);
    pty.type_in("\r");
    assert_eq!(pty.wait_within(SESSION), 130, "{}", pty.contents());
    pty.see("nothing was begun, and demo is unchanged");
    assert_eq!(things(&site), before);

    let mut pty = site.in_terminal(&["connect", "demo", "--discard"]);
    pty.see_within(SESSION, question);
    pty.type_in("y\r");
    pty.see_within(SESSION, "nothing of this session will be saved");
    pty.see_within(SESSION, "# ");
    pty.type_in("echo new >/work/words; touch /tried; sync; echo synced-$((6*7))\r");
    pty.see_within(SESSION, "synced-42");
    pty.type_in("\r~d");
    pty.see_within(
        SESSION,
        "a session that saves nothing is not left running: exit ends it",
    );
    pty.type_in("echo still-$((6*7))\r");
    pty.see_within(SESSION, "still-42");
    pty.type_in("exit 3\r");
    assert_eq!(pty.wait_within(SESSION), 3, "{}", pty.contents());
    assert!(pty.modes_are_as_before(), "{}", pty.contents());
    pty.see("demo is as it was: what this session changed is discarded");
    is_as_it_was(&site, &before);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_that_is_up_is_neither_tried_out_nor_touched() {
    let site = Site::with_a_drive();
    let script = "echo began; until [ -e /work/end ]; do sleep 0.1; done";
    let mut session = site.start(&["connect", "demo", "--", "sh", "-c", script]);
    session.prints("began\n");
    let before = things(&site);
    let refused = site.run(&[
        "connect",
        "demo",
        "--discard",
        "-y",
        "--",
        "touch",
        "/work/end",
    ]);
    refused
        .is(75)
        .reports("error: demo is not wholly saved: it has its instance (i-")
        .reports("hint: xdrive --local stop demo saves it first; without --discard, ");
    assert_eq!(things(&site), before);
    session.signal(Signal::TERM);
    session.end().is(143);
    site.is_saved("demo", 2);
}
