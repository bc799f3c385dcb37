//! A drive that is nearly full: its session is warned, and the hint's command works.

mod wide;

use super::site::{Ended, Running, Site};
use super::tree::inside;

/// A session with these flags, in which `script` runs on the host before it ends.
fn session(site: &Site, flags: &[&str], script: &str) -> Ended {
    let image = site.image();
    let wait = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let words = [&["connect", "demo", "--image", &image], flags].concat();
    let mut running: Running = site.start(&[&words[..], &["--", "sh", "-c", wait]].concat());
    running.prints("there\n");
    inside(site, &format!("{script}; touch /v1/work/end"));
    let ended = running.end();
    ended.is(0);
    ended
}

/// The output before the drive was closed, and after.
fn halves(ended: &Ended) -> (&str, &str) {
    ended.stderr.split_once("container stopped").unwrap()
}

/// The hint's command.
fn command(report: &str) -> Vec<String> {
    let line = report.lines().find(|line| line.contains("makes it larger"));
    let line = line.unwrap_or_else(|| panic!("no command in {report}"));
    assert!(line.len() <= 80, "{line}");
    let (command, _) = line.trim().split_once("  ").unwrap();
    let words = command.strip_prefix("xdrive --local ").unwrap();
    words.split(' ').map(str::to_owned).collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_nearly_full_drive_warns_at_connect_and_save_and_its_command_makes_room() {
    let site = Site::new();
    let first = session(
        &site,
        &["--size", "1"],
        "fallocate -l 850M /v1/work/much; sync",
    );
    let (before, after) = halves(&first);
    assert!(!before.contains("nearly full"), "{before}");
    let warning = "warning: demo is nearly full: 0.1 of 1 GiB are free\n";
    assert!(after.contains(warning), "{after}");
    let helps = command(after);
    assert_eq!(helps, ["connect", "demo", "--size", "2"]);

    let second = session(&site, &[], "rm /v1/work/much; sync");
    let (before, after) = halves(&second);
    assert!(before.contains(warning), "{before}");
    assert_eq!(command(before), ["resize", "demo", "2"]);
    assert!(!after.contains("nearly full"), "{after}");

    // On the larger drive the data leaves room.
    let helps: Vec<&str> = helps.iter().map(String::as_str).collect();
    let words = [&helps[..], &["--", "true"]].concat();
    let third = site.run(&words);
    third.is(0);
    let fill = "fallocate -l 850M /v1/work/much; df -m /v1 | tail -n 1 >/v1/work/df; sync";
    let fourth = session(&site, &[], fill);
    for ended in [&third, &fourth] {
        assert!(!ended.stderr.contains("nearly full"), "{}", ended.stderr);
    }
    site.is_saved("demo", 4);
}
