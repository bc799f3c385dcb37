//! A drive in use, as others see it in lists and commands.

mod wide;

use xdrive::local::Fault;

use super::simulated::{connect, paper, plant, with_snapshot};
use super::site::Site;

/// A launch that is undone at once, because no volume can be made. Its instance takes as long to
/// end as on AWS.
fn undone(site: &Site) {
    site.set("plane = \"paper\"\ndelays = \"aws\"\nstale-lists-ms = 0\nstale-reads-ms = 0\n");
    let words = "You are not authorized to perform this operation.";
    plant(
        site,
        Fault::new("CreateVolume", 403, "UnauthorizedOperation", words),
    );
    connect(site, &[])
        .is(77)
        .reports("terminated demo's instance (i-");
}

#[test]
fn a_launch_that_was_undone_leaves_no_drive_in_the_list() {
    let site = paper();
    undone(&site);
    assert_eq!(site.run(&["list"]).is(0).stdout, "no drives\n");
    site.run(&["list", "demo"])
        .is(69)
        .reports("there is no drive demo");
}

#[test]
fn resources_that_are_ending_are_not_billed_and_the_drive_counts_as_saved() {
    let site = paper();
    let snapshot = with_snapshot(&site, &[]);
    undone(&site);
    let drive = site.drive("demo");
    assert_eq!(drive["state"], "saved", "{drive}");
    assert_eq!(drive["dollars_an_hour"], 0.0, "{drive}");
    assert_eq!(drive["dollars_a_month"], 0.4, "{drive}");
    let billed = |thing: &&serde_json::Value| thing["billed"] == true;
    let things = drive["things"].as_array().unwrap();
    let billed: Vec<_> = things.iter().filter(billed).map(|it| &it["id"]).collect();
    assert_eq!(billed, [snapshot.as_str()], "{drive}");
    let text = site.run(&["list", "demo"]);
    text.is(0)
        .prints("demo   saved, generation 1, at most $0.40 a month\n");
    assert_eq!(text.stdout.matches("billed no longer").count(), 2);
}

#[test]
fn a_drive_whose_only_snapshot_failed_is_not_called_saved() {
    let site = paper();
    let snapshot = with_snapshot(&site, &[]);
    site.local().break_down(snapshot.as_str()).unwrap();
    let text = site.run(&["list", "demo"]);
    let words = format!(
        "demo   failed, generation 1, at most $0.40 a month\n  the newest snapshot ({snapshot}) failed, "
    );
    text.is(0).prints(&words);
    text.prints("  xdrive --local connect demo --from empty\n  begins anew\n");
    // A launch that fails after it was given to a fork.
    let words = "You are not authorized to perform this operation.";
    let denied = Fault::new("RunInstances", 403, "UnauthorizedOperation", words);
    plant(&site, denied);
    connect(&site, &["--from", "empty"]).is(77);
    let fork = site.drive("demo.fork-1");
    assert_eq!(fork["state"], "failed", "{fork}");
    let advice = fork["advice"].as_str().unwrap();
    let command = "xdrive --local delete demo.fork-1\n";
    assert!(advice.contains(command), "{advice}");
    site.run(&["delete", "demo.fork-1", "--yes"]).is(0);
    assert_eq!(site.drive("demo.fork-1"), serde_json::Value::Null);
}

#[test]
fn a_drive_whose_newest_snapshot_failed_names_the_one_to_go_back_to() {
    let site = paper();
    let older = with_snapshot(&site, &[]);
    let newer = with_snapshot(&site, &[("xdrive:generation", "2")]);
    site.local().break_down(newer.as_str()).unwrap();
    let drive = site.drive("demo");
    assert_eq!(drive["state"], "failed", "{drive}");
    let advice = drive["advice"].as_str().unwrap();
    let way = format!(" connect demo --from {older}\n  goes on from generation 1");
    assert!(
        advice.contains(&newer.to_string()) && advice.ends_with(&way),
        "{advice}"
    );
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_in_use_is_listed_refused_to_others_and_can_be_stopped_from_elsewhere() {
    let site = Site::new();
    let image = site.image();
    let script = "echo note >/root-note; sync; echo begun; sleep 1000";
    let arguments = [
        "connect", "demo", "--image", &image, "--", "sh", "-c", script,
    ];
    let mut session = site.start(&arguments);
    session.prints("begun\n");

    let drive = site.drive("demo");
    assert_eq!(drive["state"], "running", "{drive}");
    let mut kinds = site.kinds("demo");
    kinds.sort();
    assert_eq!(kinds, ["instance", "root disk", "volume"]);
    let text = site.run(&["list", "demo"]);
    for words in [
        "demo   running, generation 1",
        "c6a.large spot in us-east-1",
        "an hour",
        "8 GiB",
    ] {
        assert!(
            text.is(0).stdout.contains(words),
            "{words}:\n{}",
            text.stdout
        );
    }
    for line in text.stdout.lines() {
        assert!(line.chars().count() <= 80, "longer than a terminal: {line}");
    }

    let doctor = site.run(&["doctor"]);
    doctor.is(0).prints("ok  spot role");
    assert!(!doctor.stdout.contains("\nno "), "{}", doctor.stdout);

    let second = site.run(&["connect", "demo", "--no-join", "--", "true"]);
    second
        .is(75)
        .reports("demo is in use on its instance (i-")
        .reports("by another xdrive of arn:aws:iam::000000000000:user/local, since 20")
        .reports("hint: leave that session, or save it from here: xdrive --local stop demo");
    assert_eq!(
        site.drive("demo")["things"],
        drive["things"],
        "nothing was made"
    );

    // Another computer stops the drive: the session that uses it notices.
    site.run(&["stop", "demo"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    let ended = session.end();
    assert_ne!(ended.code(), 0, "{}", ended.stderr);
    // Two that save at once may make a snapshot each of the same generation.
    let snapshots = site.kinds("demo").len();
    assert!((1..=2).contains(&snapshots), "{snapshots} snapshots");
    site.is_saved("demo", snapshots);
    let next = site.run(&["connect", "demo", "--", "cat", "/root-note"]);
    assert_eq!(next.is(0).stdout, "note\n");
    site.run(&["stop", "demo"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", snapshots + 1);
}
