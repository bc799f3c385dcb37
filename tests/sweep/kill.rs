//! SIGKILL at every point, then one more connect: nothing acknowledged is lost, nothing is left.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::journal::{WRITE, acknowledged};
use crate::month::Month;
use crate::pace::Pace;
use crate::points::{self, Kill};
use crate::site::Site;

/// How often a point is tried that a session may pass by: what it waits for may be there already.
const TRIES: u32 = 3;
/// The lines that each session writes.
const LINES: &str = "1 2 3";

/// xdrive and the EC2 in its process die together.
pub(crate) fn with_ec2(pace: &mut Pace) -> anyhow::Result<()> {
    sweep(pace, false)
}

/// xdrive dies, the EC2 lives on in a process of its own.
pub(crate) fn alone(pace: &mut Pace) -> anyhow::Result<()> {
    sweep(pace, true)
}

/// A point of one of the two sessions that are swept.
struct Target {
    /// Whether the drive is a new one.
    is_new: bool,
    kill: Kill,
}

/// What is being swept.
struct Sweep {
    is_served: bool,
    site: Site,
    /// The drive that goes on from point to point.
    month: Month,
    rows: u32,
    missed: u32,
    failed: Vec<String>,
}

fn sweep(pace: &mut Pace, is_served: bool) -> anyhow::Result<()> {
    let site = Site::new(is_served)?;
    let mut sweep = Sweep {
        is_served,
        site,
        month: Month::new("month".to_owned()),
        rows: 0,
        missed: 0,
        failed: Vec::new(),
    };
    let mut targets = Vec::new();
    for is_new in [true, false] {
        let passed = sweep.month.rehearse(&sweep.site, &[LINES])?;
        for (index, point) in passed.iter().enumerate() {
            targets.push(Target {
                is_new,
                kill: Kill {
                    point: point.name.clone(),
                    after: points::middle(&passed, index),
                },
            });
        }
    }
    let all = targets.len();
    println!("{all} points; drive, point: lines acknowledged, seconds to the kill and to recover");
    for target in pace.order(targets) {
        if !pace.goes_on() {
            break;
        }
        pace.check()?;
        sweep.point(&target)?;
    }
    println!(
        "{} of {all} points, {} of them not reached, {} failed",
        sweep.rows,
        sweep.missed,
        sweep.failed.len()
    );
    ensure!(
        sweep.failed.is_empty(),
        "failed at\n{}",
        sweep.failed.join("\n")
    );
    ensure!(
        !pace.is_long() || sweep.missed * 10 <= sweep.rows,
        "too many points were not reached"
    );
    Ok(())
}

impl Sweep {
    /// Kills at one point, recovers, looks, and tells.
    fn point(&mut self, target: &Target) -> anyhow::Result<()> {
        self.rows += 1;
        let kind = if target.is_new { "new" } else { "used" };
        let mut last = Ok(None);
        let began = Instant::now();
        for _ in 0..TRIES {
            let mut month = if target.is_new {
                Month::new(format!("new-{}-{}", self.rows, began.elapsed().as_millis()))
            } else {
                self.month.clone()
            };
            last = self.kill_once(&target.kill, &mut month);
            if target.is_new {
                self.site.count_snapshots(&month.drive, true)?;
            } else {
                self.month = month;
            }
            if !matches!(last, Ok(None)) {
                break;
            }
        }
        let name = format!("{kind:4}  {:56}", target.kill.point);
        match last {
            Ok(Some(told)) => println!("{:4}  {name}  {told}", self.rows),
            Ok(None) => {
                self.missed += 1;
                println!(
                    "{:4}  {name}  not reached in {TRIES} sessions; all saved",
                    self.rows
                );
            }
            Err(error) => {
                println!("{:4}  {name}  FAILED\n{error:?}", self.rows);
                self.failed.push(format!("{name}: {error:#}"));
                // What is wrong there would be told at every later point.
                self.site = Site::new(self.is_served)?;
                self.month = Month::new("month".to_owned());
                self.month.rehearse(&self.site, &[LINES])?;
            }
        }
        Ok(())
    }

    /// One killed session and one that recovers; nothing if the point was not reached.
    fn kill_once(&self, kill: &Kill, month: &mut Month) -> anyhow::Result<Option<String>> {
        let trace = self.site.path("trace");
        let tag = format!("kill-{}-{}", self.rows, month.lines());
        let command = ["sh", "-c", WRITE, &tag, LINES];
        let killed = self
            .site
            .session(&month.drive, &command, Some((&trace, Some(kill))))?;
        // One that is killed before its first point leaves no trace.
        let passed = points::read(&trace).unwrap_or_default();
        std::fs::remove_file(&trace).context("the trace")?;
        let was_killed = killed.code == 137;
        ensure!(
            was_killed || killed.code == 0,
            "the session failed by itself: {killed:?}"
        );
        let read = month.recover(&self.site, &tag, &killed)?;
        if !was_killed {
            return Ok(None);
        }
        let acknowledged = acknowledged(&killed.stdout);
        let snapshots = self.site.count_snapshots(&month.drive, false)?;
        let last = passed.last().map_or("", |last| last.name.as_str());
        let later = if last == kill.point { "" } else { last };
        Ok(Some(format!(
            "{acknowledged}  {:5.1} {:5.1}  {snapshots:3} snapshots  {later}",
            seconds(killed.took),
            seconds(read.took)
        )))
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}
