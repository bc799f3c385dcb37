//! Two laptops, each with its own key, and one drive.

mod wide;

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use xdrive::cloud::folder;
use xdrive::ec2::Tags;

use super::site::{Ended, Running, SESSION, Site};

/// A drive whose container exists, and two laptops.
fn two_laptops() -> (Site, Site) {
    let site = Site::with_a_drive();
    let other = site.other_laptop();
    (site, other)
}

/// A session that ends with `code` when `end` is called with its `word`.
fn working(site: &Site, word: &str, code: u8) -> Running {
    let script = format!(
        "echo {word}-begun; until [ -e /work/end-{word} ]; do sleep 0.1; done; exit {code}"
    );
    site.start(&["connect", "demo", "--", "sh", "-c", &script])
}

/// Ends the session of that word, from outside, so that no further session attaches.
fn end(site: &Site, word: &str) {
    let mut instances = fs::read_dir(site.dir().join("instances")).unwrap();
    let found = instances.find_map(|instance| {
        let record = fs::read_to_string(instance.unwrap().path().join("init.json")).ok()?;
        let record: Value = serde_json::from_str(&record).unwrap();
        let folder = format!("/proc/{}/root/v1/work", record["pid"]);
        fs::exists(&folder).unwrap_or(false).then_some(folder)
    });
    fs::write(format!("{}/end-{word}", found.unwrap()), "").unwrap();
}

fn joined(site: &Site, word: &str, code: u8) -> Running {
    let mut guest = working(site, word, code);
    guest.prints(&format!("{word}-begun\n"));
    guest.reports("joined the session of arn:aws:");
    guest
}

fn leads(site: &Site, word: &str, code: u8) -> Running {
    let mut lead = working(site, word, code);
    lead.prints(&format!("{word}-begun\n"));
    lead
}

/// Checks that it left, and another session is to save.
fn left(ended: &Ended, code: i32) {
    ended.is(code).reports("left demo: ");
    assert!(!ended.stderr.contains("is saved"), "{}", ended.stderr);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_second_laptop_joins_and_the_last_to_leave_saves() {
    let (site, other) = two_laptops();
    let lead = leads(&site, "lead", 3);
    let guest = joined(&other, "guest", 7);
    let third = site.run(&["connect", "demo", "--", "ls", "/work"]);
    left(&third, 0);
    let refused = other.run(&["connect", "demo", "--no-join", "--", "true"]);
    refused
        .is(75)
        .reports("error: demo is in use on its instance (i-");
    // The lead leaves first.
    end(&other, "lead");
    left(&lead.end(), 3);
    assert_eq!(site.drive("demo")["state"], "running");
    let last = joined(&site, "last", 0);
    end(&site, "guest");
    left(&guest.end(), 7);
    last.signal(Signal::TERM);
    last.end()
        .is(143)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn when_the_lead_is_killed_the_guest_goes_on_and_saves() {
    let (site, other) = two_laptops();
    let lead = leads(&site, "lead", 0);
    let guest = joined(&other, "guest", 0);
    lead.signal(Signal::KILL);
    assert_eq!(lead.end().code(), 128 + 9);
    end(&other, "guest");
    guest
        .end()
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_lead_is_asked_before_others_are_ended() {
    let (site, other) = two_laptops();
    let mut lead = site.in_terminal(&["connect", "demo"]);
    lead.see_within(SESSION, "# ");
    let guest = joined(&other, "first", 0);
    lead.type_in("exit\r");
    lead.see_within(
        SESSION,
        "another has joined: end that session and save now? [y/N]",
    );
    lead.type_in("\r");
    assert_eq!(lead.wait_within(SESSION), 0, "{}", lead.contents());
    lead.see("left demo: another session goes on");
    end(&site, "first");
    guest.end().is(0);
    site.is_saved("demo", 2);

    let mut lead = site.in_terminal(&["connect", "demo"]);
    lead.see_within(SESSION, "# ");
    let guest = joined(&other, "second", 0);
    lead.type_in("exit\r");
    lead.see_within(SESSION, "[y/N]");
    lead.type_in("y\r");
    let ended = guest.end();
    ended
        .is(255)
        .reports("error: the host closed the drive: a session saves it");
    assert_eq!(lead.wait_within(SESSION), 0, "{}", lead.contents());
    assert!(lead.modes_are_as_before());
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn another_callers_drive_needs_shared() {
    let (site, other) = two_laptops();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let give_away = |what: &str| {
        let what = what.to_owned();
        let local = site.local();
        runtime.block_on(async move {
            let ec2 = folder::ec2(&local);
            let owner = "arn:aws:iam::111122223333:user/ada".to_owned();
            let tags = Tags::from([("xdrive:owner".to_owned(), owner)]);
            ec2.tag(&what, &tags).await.unwrap();
        });
    };
    let id = |kind: &str| {
        let drive = site.drive("demo");
        let things = drive["things"].as_array().unwrap();
        let thing = things.iter().find(|thing| thing["kind"] == kind).unwrap();
        thing["id"].as_str().unwrap().to_owned()
    };
    give_away(&id("snapshot"));
    for arguments in [&["connect", "demo", "--", "true"][..], &["stop", "demo"]] {
        let refused = other.run(arguments);
        refused
            .is(77)
            .reports("error: demo is arn:aws:iam::111122223333:user/ada's")
            .reports("hint: --shared uses it all the same");
    }
    other
        .run(&["connect", "demo", "--shared", "--", "true"])
        .is(0);
    // The drive belongs to its last user.
    let lead = leads(&site, "lead", 0);
    give_away(&id("instance"));
    other.run(&["connect", "demo", "--", "true"]).is(77);
    let guest = other.run(&["connect", "demo", "--shared", "--", "true"]);
    left(&guest, 0);
    end(&site, "lead");
    lead.end().is(0);
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn two_first_connects_at_once_make_one_instance_and_one_volume() {
    for round in 0..3 {
        let site = Site::new();
        let other = site.other_laptop();
        let image = site.image();
        let write = "echo $0 >>/work/notes; sleep 2";
        let first = |laptop: &Site, word: &str| {
            laptop.start(&[
                "connect", "demo", "--image", &image, "--", "sh", "-c", write, word,
            ])
        };
        let running = [first(&site, "one"), first(&other, "two")];
        let ended = running.map(Running::end);
        for ended in &ended {
            ended.is(0);
        }
        let report: String = ended.iter().map(|ended| ended.stderr.as_str()).collect();
        assert_eq!(
            report.matches("demo is saved").count(),
            1,
            "{round}: {report}"
        );
        assert_eq!(report.matches("joined the session").count(), 1, "{report}");
        assert_eq!(
            report.matches("mounted, generation 1").count(),
            1,
            "{report}"
        );
        site.is_saved("demo", 1);
        let notes = site.run(&["connect", "demo", "--", "cat", "/work/notes"]);
        let mut notes: Vec<&str> = notes.is(0).stdout.lines().collect();
        notes.sort_unstable();
        assert_eq!(notes, ["one", "two"]);
    }
}
