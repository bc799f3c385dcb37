//! The time that a close leaves programs, as both sides have it; and the programs that a host
//! starts as it closes.

use std::fs;
use std::time::Duration;

use super::{Folders, PYTHON, text};
use crate::host::closing::{LONGEST, time_to_end};
use crate::host::facts::CLOSING;

/// Has the deadlines of a close printed, for each of these seconds until EC2 takes the host, and for
/// a lease that is over.
const PRINTS: &str = "
notice_left() { printf %s \"$GIVEN\"; }
for GIVEN in 0 20 49 55 60 70 81 100 110 120 600; do
    deadlines
    printf '%s %s %s\n' \"$GIVEN\" \"$PROGRAMS\" \"$ASKED\"
done
rm \"$RUN/notice\"
lease_left() { printf 0; }
deadlines
printf 'lease %s %s\n' \"$PROGRAMS\" \"$ASKED\"
";

#[test]
fn programs_have_the_time_that_a_client_prints() {
    let host = Folders::new();
    let close = text("close");
    let (close, last) = close.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(last, "main \"$@\"");
    host.write("deadlines", &format!("{close}\n{PRINTS}"));
    fs::write(host.path("run/notice"), "terminate 2026-01-02T03:04:05Z\n").unwrap();
    let output = host.run(&["sh"], "deadlines", &[]);
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    let mut notices = 0;
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [left, programs, granted] = words[..] else {
            panic!("{output:?}");
        };
        let [programs, granted]: [i64; 2] = [programs, granted].map(|it| it.parse().unwrap());
        let Ok(left) = left.parse() else {
            assert_eq!(granted.unsigned_abs(), LONGEST.as_secs(), "{line}");
            continue;
        };
        notices += 1;
        for asked in [5_i64, 17, 30, 60] {
            // As `container_ends` has it.
            let has = granted.min(asked).max(programs);
            let asked = Duration::from_secs(asked.unsigned_abs());
            let printed = time_to_end(asked, Duration::from_secs(left));
            assert_eq!(printed.as_secs(), has.unsigned_abs(), "{asked:?}: {line}");
        }
    }
    assert_eq!(notices, 11, "{output:?}");
}

#[test]
fn a_host_that_closes_starts_no_command() {
    let host = Folders::new();
    let words = ["1f", "4194304", "label", "", "", "", "", "true"];
    for latch in ["run/closing", "lib/closing"] {
        fs::write(host.path(latch), "the lease ended").unwrap();
        for (verb, fact) in [
            ("begin", "xdrive: closing=the lease ended\n"),
            ("start", ""),
        ] {
            let output = host.run(&PYTHON, "command.py", &[&[verb][..], &words[..]].concat());
            let status = output.status.code().map(i32::unsigned_abs);
            assert_eq!(status, Some(CLOSING), "{output:?}");
            assert_eq!(String::from_utf8(output.stdout).unwrap(), fact);
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(error, "this host is closing: the lease ended\n");
        }
        fs::remove_file(host.path(latch)).unwrap();
    }
    assert!(!host.path("run/commands/1f").exists());
}
