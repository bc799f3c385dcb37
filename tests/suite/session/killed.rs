//! SIGKILL, and the next run after it.

use rustix::process::Signal;

use super::site::Site;

/// Prints that everything was synced, then does not end.
const SYNCED: &str = "echo $0 >>/root-note; echo $0 >>/work/note; sync; echo synced-$0; sleep 1000";
const SHOW: &str = "cat /root-note /work/note";

/// Kills a session of `drive`, whose command has synced `word`, once it is known to be under way.
fn killed_inside(site: &Site, drive: &str, word: &str) {
    let image = site.image();
    let arguments = [
        "connect", drive, "--image", &image, "--", "sh", "-c", SYNCED, word,
    ];
    let mut session = site.start(&arguments);
    session.prints(&format!("synced-{word}\n"));
    session.signal(Signal::KILL);
    assert_eq!(session.end().code(), 128 + 9);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_file_that_was_synced_before_xdrive_was_killed_is_in_the_next_session() {
    let site = Site::new();
    killed_inside(&site, "demo", "one");
    assert_eq!(site.drive("demo")["state"], "running");
    let next = site.run(&["connect", "demo", "--", "sh", "-c", SHOW]);
    assert_eq!(next.is(0).stdout, "one\none\n");
    site.is_saved("demo", 1);
    // Joined, not launched anew: the abandoned instance was still there.
    assert!(!next.stderr.contains("launched"), "{}", next.stderr);

    killed_inside(&site, "demo", "two");
    site.run(&["stop", "demo"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 2);
    let next = site.run(&["connect", "demo", "--", "sh", "-c", SHOW]);
    assert_eq!(next.is(0).stdout, "one\ntwo\none\ntwo\n");
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_save_that_was_killed_is_finished_by_the_next_run_wherever_that_was() {
    let site = Site::new();
    let image = site.image();
    let mut expected = String::new();
    // The line after which it is killed, and the command that saves then.
    let moments = [
        ("container stopped", false),
        ("started demo's snapshot", true),
        ("terminated demo's instance", false),
    ];
    for (index, (line, by_stop)) in moments.into_iter().enumerate() {
        let word = format!("word{index}");
        let write = format!("echo {word} >>/root-note; sync");
        let arguments = [
            "connect", "demo", "--image", &image, "--", "sh", "-c", &write,
        ];
        let mut session = site.start(&arguments);
        session.reports(line);
        session.signal(Signal::KILL);
        // It may have ended before the kill.
        assert!([0, 128 + 9].contains(&session.end().code()));
        expected.push_str(&word);
        expected.push('\n');
        if by_stop {
            site.run(&["stop", "demo"]).is(0);
            site.is_saved("demo", site.kinds("demo").len());
        }
    }
    let next = site.run(&["connect", "demo", "--", "cat", "/root-note"]);
    assert_eq!(next.is(0).stdout, expected);
    // The first was killed before its snapshot, and the next run went on with its volume.
    site.is_saved("demo", moments.len());
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_launch_that_was_killed_leaves_nothing_behind_after_a_stop() {
    let site = Site::new();
    let image = site.image();
    // Before anything was put on it there is nothing to save.
    let moments = [
        ("launched demo's instance", 0),
        ("created demo's volume", 0),
        ("loaded the image", 1),
    ];
    for (line, snapshots) in moments {
        let arguments = ["connect", "demo", "--image", &image, "--", "true"];
        let mut session = site.start(&arguments);
        session.reports(line);
        session.signal(Signal::KILL);
        assert_eq!(session.end().code(), 128 + 9);
        let stopped = site.run(&["stop", "demo"]);
        stopped.is(0);
        site.is_saved("demo", snapshots);
    }
}
