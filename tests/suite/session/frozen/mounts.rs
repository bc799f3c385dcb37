//! A session that ends before what is frozen goes on, and those after which it goes on nowhere any more.

use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::Signal;

use super::{end, has_printed, numbers, only_run, printed, words};
use crate::session::people::calls;
use crate::session::site::{Ended, SESSION, Site};
use harness::eventually_within;
use harness::home::cache;

const CONNECT: [&str; 5] = ["connect", "demo", "--no-jupyter", "--", "true"];

/// Begins the counting on `demo`, and has its user freeze it.
fn freeze(site: &Site) {
    let image = site.image();
    site.run(&words(&["run", "demo", "-d"], &image)).is(0);
    has_printed(site, 20);
    site.run(&["freeze", "demo"]).is(0).reports("froze sh -c");
}

fn does_not_go_on(ended: &Ended) {
    ended.is(0);
    assert!(!ended.stderr.contains("goes on where"), "{}", ended.stderr);
}

/// A command of a computer that has no criu for hosts.
fn without_criu(site: &Site, words: &[&str]) -> Command {
    let folder = site.path("cache");
    std::fs::create_dir(&folder).unwrap();
    symlink(cache().join("local"), folder.join("local")).unwrap();
    let mut command = site.command(words);
    command.env("XDRIVE_CACHE", folder);
    command
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_is_frozen_waits_for_a_session_that_has_it_go_on() {
    let site = Site::new();
    freeze(&site);
    let at = numbers(&(printed(&site) + "end")).0;
    let lacks = site.start_command(without_criu(&site, &CONNECT)).end();
    does_not_go_on(&lacks);
    lacks.reports("it stays frozen for a later session");
    assert_eq!(only_run(&site)["state"], "frozen");
    // One that ends while its drive comes up.
    let mut ended = site.start(&CONNECT);
    ended.reports("attached");
    ended.signal(Signal::INT);
    ended.end().is(130);
    assert_eq!(only_run(&site)["state"], "frozen");

    let mut session = site.start(&[&CONNECT[..4], &["sh", "-c", "read line"]].concat());
    session.reports("goes on where it was");
    has_printed(&site, at + 20);
    end(&site);
    let over = || only_run(&site)["status"] == 37;
    eventually_within(SESSION, || "its end".to_owned(), over);
    numbers(&printed(&site));
    session.end();
    site.run(&["stop", "demo"]).is(0);
}

/// A drive with a frozen command of one caller's, which another one means to share now; and that one's words.
fn shared() -> (Site, Vec<&'static str>) {
    let site = Site::new();
    calls(&site, "real", "ada@example.com");
    freeze(&site);
    calls(&site, "real", "bob@example.com");
    (site, [&["connect", "--shared"], &CONNECT[1..]].concat())
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_another_caller_has_had_mounted_goes_on_nowhere_any_more() {
    let (site, shared) = shared();
    let his = site.run(&shared);
    does_not_go_on(&his);
    his.reports("what is frozen on demo is another caller's, or another save's: it does not go on");
    calls(&site, "real", "ada@example.com");
    let hers = site.run(&shared);
    does_not_go_on(&hers);
    hers.reports(
        "what was frozen before the drive's last session, or waited for 20 of them, does not go on, and is removed",
    );
    let frozen = site.run(&["ls", "demo:/v1/xdrive/frozen"]);
    assert_eq!(frozen.stdout, "");
    assert_eq!(only_run(&site)["state"], "lost");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_another_caller_has_frozen_goes_on_nowhere_where_a_session_ended_before_its_mount() {
    let (site, shared) = shared();
    let mut killed = site.start(&shared);
    killed.reports("attached");
    killed.signal(Signal::KILL);
    killed.end();
    let his = site.run(&shared);
    does_not_go_on(&his);
    his.reports("what is frozen on demo is another caller's, or another save's: it does not go on");
    // By now it is his, and what he freezes goes on.
    freeze(&site);
    site.run(&CONNECT).is(0).reports("goes on where it was");
    site.run(&["stop", "demo"]).is(0);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn what_went_on_does_not_go_on_again_from_an_older_save() {
    let site = Site::new();
    freeze(&site);
    let drive = site.drive("demo");
    let save = drive["things"][0]["id"].as_str().unwrap();
    site.run(&CONNECT).is(0).reports("goes on where it was");
    site.run(&["stop", "demo"]).is(0);
    let older = [&["connect", "--from", save], &CONNECT[1..]].concat();
    let older = site.run(&older);
    does_not_go_on(&older);
    older.reports("what is frozen in an older save does not go on, and is removed");
}
