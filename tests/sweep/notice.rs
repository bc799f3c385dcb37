//! Notices: from EC2's announcement to the unmounted drive, with gigabytes of unsynced data, and
//! with programs that ignore SIGTERM. All must end long before the two minutes do.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::site::Site;
use harness::pace::Pace;

/// The time that EC2 gives (EC2 user guide, *Spot Instance interruption notices*).
const NOTICE: Duration = Duration::from_mins(2);
/// The command's output once it has written everything.
const AT_WORK: &str = "at work";

/// The load of a host when the notice comes.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// GiB that were written and not synced.
    dirty: u64,
    /// The command does not end at SIGTERM.
    is_stubborn: bool,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = if self.is_stubborn {
            ", SIGTERM ignored"
        } else {
            ""
        };
        f.pad(&format!("{} GiB{ends}", self.dirty))
    }
}

impl Load {
    fn script(self) -> String {
        let bytes = self.dirty << 30;
        let trap = if self.is_stubborn {
            "trap '' TERM; "
        } else {
            ""
        };
        format!(
            "{trap}head -c {bytes} /dev/zero >/work/dirty; echo {AT_WORK}; \
             while :; do sleep 1; done"
        )
    }
}

/// The loads of a bounded sweep, and those that a whole one adds.
const BOUNDED: [Load; 2] = [
    Load {
        dirty: 0,
        is_stubborn: false,
    },
    Load {
        dirty: 0,
        is_stubborn: true,
    },
];
const LONG: [Load; 3] = [
    Load {
        dirty: 1,
        is_stubborn: false,
    },
    Load {
        dirty: 4,
        is_stubborn: false,
    },
    Load {
        dirty: 4,
        is_stubborn: true,
    },
];

/// Runs all loads, one after the other: side by side they would share the disk.
pub(crate) fn in_time(pace: &mut Pace) -> anyhow::Result<()> {
    let site = Site::new(false)?;
    println!(
        "written and not synced: MiB dirty at the notice, seconds to unmounted, to a snapshot"
    );
    let long: &[Load] = if pace.is_long() { &LONG } else { &[] };
    for load in BOUNDED.iter().chain(long) {
        pace.check()?;
        run(&site, *load).with_context(|| load.to_string())?;
    }
    Ok(())
}

fn run(site: &Site, load: Load) -> anyhow::Result<()> {
    let drive = "notice";
    let script = load.script();
    let mut session = site.start(drive, &["bash", "-c", &script], None)?;
    session.until(|session| session.printed().contains(AT_WORK))?;
    let dirty = dirty()?;
    let noticed = Instant::now();
    site.interrupt(NOTICE)?;
    session.until(|session| session.reported().contains("container stopped"))?;
    let unmounted = noticed.elapsed();
    session.until(|session| {
        let begun = format!("started {drive}'s snapshot");
        session.reported().contains(&begun)
    })?;
    let begun = noticed.elapsed();
    println!(
        "{load:24} {dirty:5} {:7.1} {:7.1}",
        unmounted.as_secs_f64(),
        begun.as_secs_f64()
    );
    let ended = session.end()?;
    ensure!(ended.code == 75, "{}:\n{}", ended.code, ended.stderr);
    ensure!(begun < NOTICE, "too late:\n{}", ended.stderr);
    let found = site.session(drive, &["stat", "-c", "%s", "/work/dirty"], None)?;
    ensure!(
        found.stdout.trim() == (load.dirty << 30).to_string(),
        "{}\n{}",
        found.stdout,
        found.stderr
    );
    site.count_snapshots(drive, true)?;
    let left = site.left()?;
    ensure!(left.is_empty(), "left: {left:?}");
    Ok(())
}

/// The computer's unwritten data, in MiB (`proc_meminfo(5)`).
fn dirty() -> anyhow::Result<u64> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let line = memory.lines().find_map(|line| line.strip_prefix("Dirty:"));
    let kibibytes = line.and_then(|line| line.split_ascii_whitespace().next());
    let kibibytes: u64 = kibibytes.context("no Dirty in /proc/meminfo")?.parse()?;
    Ok(kibibytes / 1024)
}
