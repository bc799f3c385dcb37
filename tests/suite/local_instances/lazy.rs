//! Volumes whose blocks come at their first touch.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use xdrive::local::plane::{Lazy, Source};

use super::machines::Host;
use crate::session::site::{SESSION, Site};
use harness::{eventually_within, id};

/// The blocks of the volume of these tests that have random bytes: 16 MiB.
const RANDOM: usize = 32;

const BLOCK: u64 = 512 << 10;

/// From half to one and a half times as slow, by the block's number.
fn lazy(ms: u32) -> Lazy {
    Lazy {
        lazy: true,
        median_ms: ms,
        p99_ms: ms,
        ..Lazy::default()
    }
}

/// A machine, and a snapshot that has random bytes at its start and nothing behind them.
fn site() -> (Site, Host, String) {
    let site = Site::machines();
    let host = site.launch();
    let (volume, snapshot) = (id("vol"), id("snap"));
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    host.run("dd if=/dev/urandom of=/dev/sdf bs=512K count=32 oflag=direct status=none");
    site.plane.detach(&volume, &host.id).unwrap();
    site.plane.create_snapshot(&snapshot, &volume).unwrap();
    site.plane.delete_volume(&volume).unwrap();
    (site, host, snapshot)
}

/// A volume of that snapshot whose blocks come late, or at a rate besides.
fn late(site: &Site, snapshot: &str, lazy: &Lazy, rate: Option<u32>) -> String {
    let volume = id("vol");
    let source = Source {
        snapshot,
        lazy: Some(lazy),
        rate,
        ..Source::from(snapshot)
    };
    site.plane.create_volume(&volume, 1, Some(source)).unwrap();
    volume
}

/// The blocks in the middle, of which nobody on this computer reads anything by itself: a byte each, behind the line.
fn middle(site: &Site, volume: &str) -> String {
    asked(site, volume)[8..24].to_owned()
}

/// The blocks that were asked for.
fn asked(site: &Site, volume: &str) -> String {
    let map = site.dir().join("disks").join(format!("{volume}.lazy"));
    let map = fs::read_to_string(map).unwrap();
    let (_, blocks) = map.split_once('\n').unwrap();
    blocks.to_owned()
}

/// Reads so many blocks from this one on, one after the other.
fn read(host: &Host, first: usize, count: usize) -> Duration {
    let begun = Instant::now();
    host.run(&format!(
        "dd if=/dev/sdf of=/dev/null bs=512K skip={first} count={count} iflag=direct status=none"
    ));
    begun.elapsed()
}

/// Kills what serves the volume.
fn kill_server(volume: &str) {
    let ended = Command::new("pkill")
        .args(["-KILL", "-f", &format!("local serve-volume .* {volume}")])
        .status()
        .unwrap();
    assert!(ended.success());
}

/// A checksum of that many bytes of a file or device.
fn sum(host: &Host, of: &str) -> String {
    host.run(&format!(
        "head -c {} {of} | sha256sum",
        RANDOM as u64 * BLOCK
    ))
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_block_is_late_once_wherever_its_volume_is_attached() {
    let (site, host, snapshot) = site();
    let volume = late(&site, &snapshot, &lazy(100), None);
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    assert_eq!(middle(&site, &volume), "cccccccccccccccc");
    assert!(read(&host, 8, 4) >= Duration::from_millis(4 * 50));
    assert_eq!(middle(&site, &volume), "wwwwcccccccccccc");
    // A block that is written whole need not come; another is there before it is written.
    let write = "dd if=/dev/zero of=/dev/sdf oflag=direct conv=notrunc status=none";
    host.run(&format!(
        "{write} bs=512K seek=16 count=1 && {write} bs=4K seek=2304 count=1"
    ));
    let written = "wwwwccccwcwccccc";
    assert_eq!(middle(&site, &volume), written);
    // The snapshot has nothing there.
    read(&host, RANDOM + 8, 4);
    assert_eq!(asked(&site, &volume).len(), RANDOM);

    site.plane.detach(&volume, &host.id).unwrap();
    let second = site.launch();
    site.attach(&volume, &second.id, "/dev/sdf").unwrap();
    assert_eq!(middle(&site, &volume), written);
    // A copy has what was written, and what never came.
    let whole = sum(&second, "/dev/sdf");
    assert_eq!(asked(&site, &volume), "w".repeat(RANDOM));
    let (copied, copy) = (id("snap"), id("vol"));
    site.plane.create_snapshot(&copied, &volume).unwrap();
    let source = Source::from(copied.as_str());
    site.plane.create_volume(&copy, 1, Some(source)).unwrap();
    site.attach(&copy, &second.id, "/dev/sdg").unwrap();
    assert_eq!(sum(&second, "/dev/sdg"), whole);

    // Larger in the middle of its use.
    site.plane.grow_volume(&volume, 2).unwrap();
    assert_eq!(
        second.run("blockdev --getsize64 /dev/sdf"),
        (2_u64 << 30).to_string()
    );
    second.run("mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt && echo kept >/mnt/note");
    site.plane.clear(&second.id).unwrap();
    site.plane.clear(&host.id).unwrap();
    site.has_no_leaks();
    site.plane.delete_volume(&volume).unwrap();
    assert!(
        !site
            .dir()
            .join("disks")
            .join(format!("{volume}.lazy"))
            .exists()
    );
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn blocks_come_at_once_that_are_asked_for_at_once() {
    let (site, host, snapshot) = site();
    // From one to three minutes each.
    let volume = late(&site, &snapshot, &lazy(120_000), None);
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    let read = "dd if=/dev/sdf of=/dev/null bs=512K skip=$n count=1 iflag=direct status=none";
    host.run(&format!(
        "for n in $(seq 8 23); do {read} >/dev/null 2>&1 </dev/null & done"
    ));
    // One after the other none but the first would be asked for by then.
    eventually_within(
        Duration::from_secs(55),
        || asked(&site, &volume),
        || middle(&site, &volume) == "wwwwwwwwwwwwwwww",
    );
    kill_server(&volume);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_bought_rate_has_them_come_by_themselves() {
    let (site, host, snapshot) = site();
    // By the rate of 100 MiB a second all are there after 160 ms; asked for, each one takes minutes.
    let volume = late(&site, &snapshot, &lazy(200_000), Some(100));
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    assert!(read(&host, 0, RANDOM) < Duration::from_mins(1));
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_volume_that_nobody_serves_any_more_fails_and_leaves_nothing() {
    let (site, host, snapshot) = site();
    let volume = late(&site, &snapshot, &lazy(1), None);
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    read(&host, 0, 1);
    kill_server(&volume);
    let fails = "dd if=/dev/sdf of=/dev/null bs=512K skip=2 count=1 iflag=direct 2>/dev/null && \
                 echo read || echo failed";
    eventually_within(
        SESSION,
        || "a read".to_owned(),
        || host.run(fails) == "failed",
    );
    site.plane.clear(&host.id).unwrap();
    site.has_no_leaks();
    // Another one, whose files are seen as long as it is attached.
    let other = late(&site, &snapshot, &lazy(1), None);
    let second = site.launch();
    site.attach(&other, &second.id, "/dev/sdf").unwrap();
    site.plane
        .sweep(&[&second.id], &[&other], &[&snapshot])
        .unwrap();
    let left = fs::read_dir(site.dir().join("disks")).unwrap();
    let mut left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    left.sort();
    let kept = [
        format!("{snapshot}.img"),
        format!("{other}.img"),
        format!("{other}.lazy"),
    ];
    assert_eq!(left, kept.map(Into::<std::ffi::OsString>::into));
    read(&second, 0, 1);
}
