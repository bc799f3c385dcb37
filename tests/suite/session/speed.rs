//! The size and speed of a drive's volume: set once, for every laptop.

use std::process::Command;
use std::time::Instant;

use xdrive::local::wire::Params;

use super::simulated::{connect, dry_run, paper};
use super::site::{SESSION, Site};
use harness::ServedFolder;
use harness::home::PATH;

/// EC2's answer about all volumes during a session of `demo` with these flags; the drive is saved
/// then.
pub(super) fn volumes(site: &Site, flags: &[&str]) -> String {
    let script = "echo begun; sleep 600";
    let words = [&["connect", "demo"], flags, &["--", "sh", "-c", script]].concat();
    let mut session = site.start(&words);
    session.prints("begun\n");
    let answer = site.local().call("DescribeVolumes", &Params::default());
    site.run(&["stop", "demo"]).is(0);
    session.end();
    format!("{:?}", answer.unwrap())
}

/// Whether an element of that name has this value.
fn has(volumes: &str, name: &str, value: u32) -> bool {
    volumes
        .split(&format!("\"{name}\""))
        .skip(1)
        .any(|rest| rest.split('"').nth(1) == Some(value.to_string().as_str()))
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_is_as_fast_as_it_was_asked_for_from_any_laptop() {
    let site = Site::new();
    let image = site.image();
    let flags = ["--image", &image, "--throughput", "300", "--iops", "4000"];
    let volume = volumes(&site, &flags);
    assert!(
        has(&volume, "throughput", 300) && has(&volume, "iops", 4000),
        "{volume}"
    );
    let other = site.other_laptop();
    let volume = volumes(&other, &["--warm", "200"]);
    assert!(
        has(&volume, "throughput", 300) && has(&volume, "iops", 4000),
        "{volume}"
    );
    assert!(has(&volume, "volumeInitializationRate", 200), "{volume}");
    let volume = volumes(&site, &["--throughput", "125"]);
    assert!(
        !has(&volume, "throughput", 300) && has(&volume, "iops", 4000),
        "{volume}"
    );
    assert!(has(&volume, "volumeInitializationRate", 200), "{volume}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn what_was_bought_of_speed_is_part_of_what_a_session_costs() {
    let site = Site::new();
    let image = site.image();
    let flags = ["--image", &image, "--throughput", "300", "--iops", "4000"];
    let mut pty = site.in_terminal(&[&["connect", "demo"], &flags[..]].concat());
    pty.see_within(SESSION, "plus about $0.026 an hour for address and disks");
    pty.see_within(SESSION, "# ");
    // $0.64 for 8 GiB, $7.00 for 175 MiB/s, $5.00 for 1000 operations a second.
    let month = "the drive: about $12.64 a month while it is a volume";
    let end = Instant::now() + SESSION;
    while !pty.contents().contains(month) {
        assert!(Instant::now() < end, "{}", pty.contents());
        // It is read in parallel with the shell.
        pty.type_in("~$");
        pty.see("spot, 0 h ");
        pty.type_in("\r");
    }
    pty.see("an hour, plus about $0.026 an hour for address and disks");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());

    // From another laptop, without flags for it.
    let other = site.other_laptop();
    let dry = other.run(&["connect", "demo", "--dry-run"]);
    dry.is(0)
        .prints("each plus about $0.026 an hour for address and disks");
    let mut pty = other.in_terminal(&["connect", "demo", "--throughput", "125"]);
    pty.see_within(SESSION, "plus about $0.016 an hour for address and disks");
    pty.see_within(SESSION, "# ");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 2);
}

#[test]
fn what_no_volume_can_be_is_refused_with_its_range() {
    let site = paper();
    for (flags, why) in [
        (&["--throughput", "2001"][..], "from 125 to 2000 MiB"),
        (&["--iops", "2999"], "from 3000 to 80000"),
        (&["--warm", "99"], "from 100 to 300 MiB"),
        (
            &["--throughput", "1000"],
            "1000 MiB/s take 4000 IOPS, and the volume has 3000",
        ),
        (
            &["--iops", "16000"],
            "a volume of 8 GiB has 4000 IOPS at most (500 for each GiB), and not 16000",
        ),
    ] {
        connect(&site, flags).is(2).reports(why);
    }
    for (text, range) in [
        ("throughput = 2001", "from 125 to 2000 MiB a second"),
        ("throughput = \"fast\"", "from 125 to 2000 MiB a second"),
        ("iops = 2999", "from 3000 to 80000 operations a second"),
        ("iops = 99999999999", "from 3000 to 80000 operations"),
        ("warm = 301", "from 100 to 300 MiB a second"),
        ("warm = true", "it is neither text nor a number"),
    ] {
        site.configure(text);
        connect(&site, &[]).is(78).reports(text).reports(range);
    }
    site.configure("throughput = \"1000\"\n");
    connect(&site, &[])
        .is(2)
        .reports("hint: --iops 4000, or --throughput 750");
    dry_run(&site, &["--iops", "4000"])
        .is(0)
        .prints("an empty volume of 8 GiB, about $40.64 a month");
}

#[test]
fn a_new_drive_of_an_account_has_room_for_a_commit() {
    let served = ServedFolder::start();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdrive"));
    command.env_clear().env("PATH", PATH);
    let environment = String::from_utf8(served.environment().stdout).unwrap();
    for line in environment
        .lines()
        .filter_map(|line| line.strip_prefix("export "))
    {
        let (name, value) = line.split_once('=').unwrap();
        command.env(name, value.trim_matches('\''));
    }
    let ended = command
        .env("HOME", folder.path())
        .args(["connect", "demo", "--dry-run"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    let expected = "demo is new: an empty volume of 32 GiB, about $2.56 a month";
    assert!(printed.contains(expected), "{ended:?}");
}
