//! The cost of a drive's snapshots is printed at each save, with a command that prunes them.

use xdrive::local::wire::Params;

use crate::session::site::{Ended, Site};

/// The size of each snapshot in EC2's answer, in bytes.
fn full_sizes(site: &Site) -> Vec<u64> {
    let answer = site.local().call("DescribeSnapshots", &Params::default());
    let answer = format!("{:?}", answer.unwrap());
    let parts = answer.split("\"fullSnapshotSizeInBytes\"").skip(1);
    let number = |rest: &str| rest.split('"').nth(1).unwrap().parse().unwrap();
    parts.map(number).collect()
}

/// A session that writes so many GiB.
fn session(site: &Site, gib: u32) -> Ended {
    let image = site.image();
    let script = format!("head -c {gib}G /dev/zero >/work/much; sync");
    let words = ["connect", "demo", "--size", "9", "--image", &image];
    let ended = site.run(&[&words[..], &["--", "sh", "-c", &script]].concat());
    ended.is(0);
    ended
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and 8 GiB of disk"]
fn snapshots_that_may_cost_a_dollar_are_reported_and_the_printed_command_prunes() {
    let site = Site::new();
    for number in 1..3 {
        let ended = if number == 1 {
            session(&site, 7)
        } else {
            site.run(&["connect", "demo", "--", "true"])
        };
        ended.is(0);
        assert!(
            !ended.stderr.contains("a month\n  xdrive"),
            "{}",
            ended.stderr
        );
    }
    let third = site.run(&["connect", "demo", "--", "true"]);
    third.is(0);
    let sizes = full_sizes(&site);
    assert!(
        sizes.iter().all(|size| (7 << 30..8 << 30).contains(size)),
        "{sizes:?}"
    );
    let (_, report) = third.stderr.split_once("demo is saved").unwrap();
    let mut lines = report.lines().skip(1);
    let line = lines.find(|line| line.contains("snapshots cost"));
    let line = line.unwrap_or_else(|| panic!("{report}"));
    assert!(
        line.starts_with("demo's 3 snapshots cost between $0.3"),
        "{line}"
    );
    assert!(
        line.contains("and $1.0") && line.ends_with(" a month"),
        "{line}"
    );

    let command = lines.next().unwrap().trim();
    let (command, does) = command.split_once("  ").unwrap();
    assert_eq!(does, "keeps the newest two");
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    site.run(&words)
        .is(0)
        .prints("deleted demo's old snapshot (snap-");
    site.is_saved("demo", 2);
    let again = site.run(&["stop", "demo"]);
    again.is(0);
    assert!(!again.stderr.contains("snapshots cost"), "{}", again.stderr);
}
