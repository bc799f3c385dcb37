//! The size and speed of a drive's volume: set once, for every laptop.

mod wide;

use xdrive::local::wire::Params;

use super::served::ServedSite;
use super::simulated::{connect, dry_run, paper};
use super::site::Site;

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
fn speeds_that_no_volume_can_have_are_refused_with_their_range() {
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
    let served = ServedSite::paper("");
    let mut command = served.site.words(&["connect", "demo", "--dry-run"]);
    let ended = command.envs(served.variables()).output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    let expected = "demo is new: an empty volume of 32 GiB, about $2.56 a month";
    assert!(printed.contains(expected), "{ended:?}");
}
