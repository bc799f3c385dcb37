//! Drives whose volumes come from snapshots at the first touch, and what hosts fetch before anybody asks for it.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use super::site::{Running, SESSION, Site};
use crate::local_instances::until;
use crate::session::workers::joined::on;
use harness::eventually_within;

/// A file of 16 blocks that is like no other.
const MAKE: &str = "head -c 8388608 /dev/urandom >/work/large";

/// Reads it as a program reads its files.
const READ: &str = "cat /work/large >/dev/null";

const LAZY: &str = "[volumes]\nlazy = true\nmedian-ms = 1\np99-ms = 5\n";

/// The states of the blocks of the one volume that is there.
fn blocks(site: &Site) -> String {
    let disks = fs::read_dir(site.dir().join("disks")).unwrap();
    let maps = disks.map(|file| file.unwrap().path());
    let map = maps
        .filter(|path| path.extension().is_some_and(|end| end == "lazy"))
        .map(|path| fs::read_to_string(path).unwrap())
        .next()
        .expect("a volume");
    map.split_once('\n').unwrap().1.to_owned()
}

/// Runs a script on the host of the drive.
fn on_host(site: &Site, script: &str) -> String {
    on(site, &site.instance("demo"), script)
}

/// A drive that has the file, and one session behind it.
fn site() -> Site {
    let site = Site::with_settings(LAZY);
    let image = site.image();
    let words = ["connect", "demo", "--image", &image, "--", "sh", "-c", MAKE];
    site.run(&words).is(0);
    site
}

/// A session that does nothing, and is up.
fn up(site: &Site) -> Running {
    let mut session = site.start(&[
        "connect",
        "demo",
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 600",
    ]);
    session.prints("up");
    session
}

/// A session that does nothing: what `look` finds once it is up.
fn idle_session<T>(site: &Site, look: impl FnOnce(&Site) -> T) -> T {
    let session = up(site);
    let found = look(site);
    session.signal(Signal::TERM);
    session.end().is(143);
    found
}

/// The blocks on the list of the drive, which is up.
fn listed(site: &Site) -> Vec<usize> {
    let list = on_host(site, "cat /v1/xdrive/hot");
    let block = |line: &str| line.split(' ').next().unwrap().parse().unwrap();
    list.lines().map(block).collect()
}

/// Waits until all that is listed was asked for. Returns how much that is.
fn fetched(site: &Site) -> usize {
    let listed = listed(site);
    let is_asked = |block: &usize| blocks(site).as_bytes().get(*block) != Some(&b'c');
    let left = || format!("{listed:?} in {}", blocks(site));
    eventually_within(SESSION, left, || listed.iter().all(is_asked));
    listed.len()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_fetches_what_the_session_before_has_read() {
    let site = site();
    // Its list is what was read after a mount from a snapshot.
    idle_session(&site, |_| ());
    let unread = idle_session(&site, |site| listed(site).len());
    site.session("demo", &["sh", "-c", READ]).is(0);
    let read = idle_session(&site, fetched);
    assert!(read >= unread + 16, "{unread}, then {read}");
    // Nor where it is not wanted; and what the list has stays.
    site.configure("hot = false\n");
    let state = "systemctl is-active xdrive-hot; ls /run/xdrive/xdrive-hot 2>&1 | grep -c cannot";
    let state = idle_session(&site, |site| on_host(site, state));
    assert_eq!(state, "inactive\n1\n");
    site.configure("");
    assert!(idle_session(&site, fetched) >= read);
    // Not for ever: three whole recordings, here of seconds, have not had it. Something is read in each.
    let record = "systemctl stop xdrive-hot; trace=/sys/kernel/tracing/instances/xdrive-test; \
                  cd /var/lib/xdrive/scripts/*; device=$(findmnt -no SOURCE -M /v1); \
                  for n in 1 2 3; do \
                  (until grep -qs 1 $trace-$n/events/block/block_bio_queue/enable; do sleep 0.02; done; \
                  dd if=$device of=/dev/null bs=4096 count=1 iflag=direct status=none) & \
                  /run/xdrive/xdrive-hot -I -S hot.py $device /v1/xdrive/hot 3 xdrive-test-$n; done; \
                  wc -l </v1/xdrive/hot";
    let left = idle_session(&site, |site| on_host(site, record));
    let left: usize = left.trim().parse().unwrap_or_else(|_| panic!("{left}"));
    assert!(left < unread + 16, "{unread}, then {left}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_list_that_somebody_else_wrote_leads_nowhere() {
    let site = site();
    let session = up(&site);
    let wrong = "cd /v1/xdrive && systemctl stop xdrive-hot && echo mine >/root/mine && rm -f hot && \
                 ln -s /root/mine hot.new && \
                 printf '99999999 0\\n-1 0\\n0 0 0\\n1 9\\n../x 0\\n0 0\\n\\377 0\\n999999999999 0' >hot && \
                 sync -f . && ls";
    assert!(on_host(&site, wrong).contains("hot.new"));
    session.signal(Signal::TERM);
    session.end().is(143);
    let session = up(&site);
    let ends = "systemctl stop xdrive-hot; journalctl --sync; journalctl -o cat -u xdrive-hot | grep -c Traceback; \
                ls -l /v1/xdrive/hot.new /root/mine 2>/dev/null; grep -vcE '^[0-9]{1,6} [0-2]$' /v1/xdrive/hot; \
                ls /sys/kernel/tracing/instances | grep -c xdrive-vol-$(sed -n 's/^volume=vol-//p' /run/xdrive/volume)";
    assert_eq!(on_host(&site, ends), "0\n0\n0\n");
    session.signal(Signal::TERM);
    session.end().is(143);
    // A host that vanishes leaves no trace in the kernel, which is this computer's.
    let session = up(&site);
    let trace = on_host(&site, "sed -n 's/^volume=/xdrive-/p' /run/xdrive/volume");
    let is_there = || {
        let seen = Command::new("unshare")
            .args(["--mount", "sh", "-c"])
            .arg(
                "t=/sys/kernel/tracing; [ -d $t/instances ] || mount -t tracefs x $t; ls $t/instances",
            )
            .output()
            .unwrap();
        String::from_utf8_lossy(&seen.stdout).contains(trace.trim())
    };
    until("its trace", is_there);
    site.interrupt("demo", 0);
    until("the end of its trace", || !is_there());
    // It is saved from what is left.
    session.end().is(75);
    site.run(&["connect", "demo", "--", "true"]).is(0);
}
