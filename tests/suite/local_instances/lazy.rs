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

/// As slow for each block, whatever its number.
fn lazy(ms: u32) -> Lazy {
    Lazy {
        lazy: true,
        median_ms: ms,
        p99_ms: ms,
        ..Lazy::default()
    }
}

/// A snapshot that has random bytes at its start and a file system behind them, and a machine.
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

/// The blocks that were asked for: a byte each, behind the line.
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
    assert_eq!(asked(&site, &volume), "c".repeat(RANDOM));
    assert!(read(&host, 0, 4) >= Duration::from_millis(4 * 50));
    let four = format!("{}{}", "w".repeat(4), "c".repeat(RANDOM - 4));
    assert_eq!(asked(&site, &volume), four);
    // The snapshot has nothing there.
    read(&host, RANDOM + 8, 4);
    assert_eq!(asked(&site, &volume), four);

    // A block that is written whole need not come; another is there before it is written.
    let write = "dd if=/dev/zero of=/dev/sdf oflag=direct conv=notrunc status=none";
    host.run(&format!(
        "{write} bs=512K seek=8 count=1 && {write} bs=4K seek=1280 count=1"
    ));
    let written = format!("wwwwcccc{}c{}{}", "w", "w", "c".repeat(RANDOM - 11));
    assert_eq!(asked(&site, &volume), written);

    site.plane.detach(&volume, &host.id).unwrap();
    let second = site.launch();
    site.attach(&volume, &second.id, "/dev/sdf").unwrap();
    assert_eq!(asked(&site, &volume), written);
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
    // From two to six seconds each.
    let volume = late(&site, &snapshot, &lazy(4000), None);
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    let read = "dd if=/dev/sdf of=/dev/null bs=512K skip=$n count=1 iflag=direct status=none";
    host.run(&format!(
        "for n in $(seq 0 15); do {read} >/dev/null 2>&1 </dev/null & done"
    ));
    // One after the other they would be asked for in half a minute at least.
    let all = format!("{}{}", "w".repeat(16), "c".repeat(16));
    eventually_within(
        Duration::from_secs(20),
        || asked(&site, &volume),
        || asked(&site, &volume) == all,
    );
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_volume_that_nobody_serves_any_more_fails_and_leaves_nothing() {
    let (site, host, snapshot) = site();
    let volume = late(&site, &snapshot, &lazy(1), None);
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    read(&host, 0, 1);
    let ended = Command::new("pkill")
        .args(["-KILL", "-f", &format!("local serve-volume .* {volume}")])
        .status()
        .unwrap();
    assert!(ended.success());
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
