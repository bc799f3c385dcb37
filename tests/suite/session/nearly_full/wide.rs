//! Variants of `nearly_full`, which `shell/test.sh --all` runs.

use super::{command, halves, session};
use crate::session::site::{SESSION, Site};
use crate::session::tree::inside;
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_filled_to_its_last_byte_is_saved_comes_back_and_grows() {
    let site = Site::new();
    // As root, who may have the blocks that are kept for him.
    let fill = "cat /dev/zero >/v1/work/much; cat /dev/zero >>/v1/work/rest; sync; true";
    let first = session(&site, &["--size", "1"], fill);
    let (_, after) = halves(&first);
    let warning = "warning: demo is nearly full: 0 of 1 GiB are free\n";
    assert!(after.contains(warning), "{after}");

    // It is used as any other.
    let second = site.session("demo", &["sh", "-c", "stat -c %s /work/much >&2; true"]);
    second
        .is(0)
        .reports("warning: demo is nearly full: 0 of 1 GiB");
    let helps = command(&second.stderr);
    assert_eq!(helps, ["connect", "demo", "--size", "2"]);
    let helps: Vec<&str> = helps.iter().map(String::as_str).collect();
    let write = "cat /work/much >/work/again && stat -c %s /work/much /work/again";
    let third = site.run(&[&helps[..], &["--", "sh", "-c", write]].concat());
    let sizes: Vec<&str> = third.is(0).stdout.lines().collect();
    assert_eq!(sizes.len(), 2);
    assert_eq!(sizes[0], sizes[1]);
    site.is_saved("demo", 3);
}

/// The fault: dockerd did not start on it, so nobody could delete anything.
#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_without_a_block_or_an_inode_can_be_entered_twice_and_be_emptied() {
    let site = Site::new();
    // Folders take blocks, so the inodes go first. One is for what ends the session.
    let fill = "cd /v1/work; touch much; mkdir many; seq 70000 | (cd many && xargs touch 2>/dev/null); \
                fallocate -l $(df --output=avail -B1 . | tail -n 1) much; \
                dd if=/dev/zero of=much bs=4k oflag=append conv=notrunc 2>/dev/null; \
                rm many/1; sync; df -B1 . >&2; df -i . >&2; true";
    session(&site, &["--size", "1"], fill);

    let note = "demo was full: a part of the room that is reserved for this is free now";
    let more = "dd if=/dev/zero of=/work/much bs=4k oflag=append conv=notrunc 2>/dev/null; true";
    let second = site.session("demo", &["sh", "-c", more]);
    second
        .is(0)
        .reports(note)
        .reports("resize demo 2  makes it larger at once");
    let third = site.session("demo", &["sh", "-c", "rm -r /work/much /work/many"]);
    third.is(0).reports(note);

    // Room is reserved again, and is not counted as free.
    let look = "cd /v1; stat -c %s xdrive/reserve/bytes >work/look; \
                ls xdrive/reserve | wc -l >>work/look; du -m xdrive | tail -n 1 | cut -f 1 >>work/look";
    let fourth = session(&site, &[], look);
    assert!(!fourth.stderr.contains("full"), "{}", fourth.stderr);
    let looked = site.run(&["cat", "demo:look"]);
    looked.is(0).prints("16777216\n257\n");
    site.is_saved("demo", 4);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_with_hardly_an_inode_left_warns_also_who_joins() {
    let site = Site::new();
    // ext4 makes 65,536 for a GiB.
    let many = "mkdir /v1/work/many; cd /v1/work/many; seq 62000 | xargs touch; sync";
    let first = session(&site, &["--size", "1"], many);
    let (before, after) = halves(&first);
    assert!(!before.contains("warning"), "{before}");
    assert!(!after.contains("GiB are free"), "{after}");
    let line = after.lines().find(|line| line.contains("more files"));
    let line = line.unwrap_or_else(|| panic!("{after}"));
    let count = line.strip_prefix("warning: demo is nearly full: it has room for ");
    let count = count.and_then(|rest| rest.strip_suffix(" more files"));
    let count: u64 = count.unwrap().parse().unwrap();
    assert!((1000..3536).contains(&count), "{line}");

    let script = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let mut leads = site.start(&["connect", "demo", "--", "sh", "-c", script]);
    leads.prints("there\n");
    let guest = site.run(&["connect", "demo", "--", "true"]);
    guest
        .is(0)
        .reports("joined the session")
        .reports(" more files\n");
    command(&guest.stderr);
    inside(&site, "touch /v1/work/end");
    leads.end().is(0).reports(" more files\n");
    site.is_saved("demo", 2);
}

/// The fault: its end could not be recorded. It was listed as lost with its host, and its error was gone.
#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_that_fills_the_drive_is_on_record_with_its_error() {
    let site = Site::new();
    let image = site.image();
    let script = "for i in 1 2 3; do cat /dev/zero >>/work/much; sync; done 2>/dev/null; \
                  echo no room left >&2; exit 9";
    let run = ["run", "demo", "-d", "--size", "1", "--image", &image];
    site.run(&[&run[..], &["--", "sh", "-c", script]].concat())
        .is(0);
    let read = || inside(&site, "cd /v1/xdrive/runs/*; cat record errors");
    let has_all = || {
        let read = read();
        read.contains("\"status\": 9") && read.ends_with("no room left\n")
    };
    eventually_within(SESSION, read, has_all);
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}
