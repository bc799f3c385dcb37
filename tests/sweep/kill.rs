//! SIGKILL at every point, then one more connect: nothing acknowledged is lost, nothing is left.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::jobs::side_by_side;
use crate::journal::{WRITE, acknowledged};
use crate::month::Month;
use crate::points::{self, Kill};
use crate::site::Site;
use harness::pace::Pace;

/// How often a point is tried that a session may skip, if it need not wait there.
const TRIES: u32 = 3;
/// The lines that each session writes.
const LINES: &str = "1 2 3";
/// The drive that goes on from point to point.
const USED: &str = "month";

/// xdrive and the EC2 in its process die together.
pub(crate) fn with_ec2(pace: &mut Pace) -> anyhow::Result<()> {
    sweep(pace, false)
}

/// xdrive dies, the EC2 lives on in a process of its own.
pub(crate) fn alone(pace: &mut Pace) -> anyhow::Result<()> {
    sweep(pace, true)
}

/// A point of one of the two swept sessions.
struct Target {
    /// Whether the drive is a new one.
    is_new: bool,
    kill: Kill,
}

/// A site, and its drive that goes on from point to point, once needed.
struct Worker {
    is_served: bool,
    site: Site,
    month: Option<Month>,
}

/// The results of the points.
#[derive(Default)]
struct Sum {
    missed: usize,
    failed: Vec<String>,
}

fn sweep(pace: &mut Pace, is_served: bool) -> anyhow::Result<()> {
    let mut first = Worker::begin(is_served)?;
    let mut month = Month::new(USED.to_owned());
    let mut targets = Vec::new();
    for is_new in [true, false] {
        let passed = month.reference_run(&first.site, &[LINES])?;
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
    first.month = Some(month);
    let all = targets.len();
    println!("{all} points; drive, point: lines acknowledged, seconds to the kill and to recover");
    let targets = pace.choose(targets);
    let (first, sum) = (Mutex::new(Some(first)), Mutex::new(Sum::default()));
    let taken = side_by_side(
        pace,
        &targets,
        || match first.lock().unwrap().take() {
            Some(first) => Ok(first),
            None => Worker::begin(is_served),
        },
        |worker, row, target| worker.point(row, target, &sum),
    )?;
    let Sum { missed, failed } = sum.into_inner()?;
    println!(
        "{taken} of {all} points, {missed} of them not reached, {} failed",
        failed.len()
    );
    ensure!(failed.is_empty(), "failed at\n{}", failed.join("\n"));
    ensure!(
        !pace.is_long() || missed * 10 <= taken,
        "too many points were not reached"
    );
    Ok(())
}

impl Worker {
    fn begin(is_served: bool) -> anyhow::Result<Self> {
        Ok(Self {
            is_served,
            site: Site::new(is_served)?,
            month: None,
        })
    }

    /// Kills at one point, recovers, checks, and reports.
    fn point(&mut self, row: usize, target: &Target, sum: &Mutex<Sum>) -> anyhow::Result<()> {
        let kind = if target.is_new { "new" } else { "used" };
        let mut last = Ok(None);
        for attempt in 1..=TRIES {
            last = if target.is_new {
                let mut new = Month::new(format!("new-{row}-{attempt}"));
                let outcome = self.kill_once(&target.kill, row, &mut new);
                self.site.count_snapshots(&new.drive, true)?;
                outcome
            } else {
                let mut month = match self.month.take() {
                    Some(month) => month,
                    None => self.used()?,
                };
                let outcome = self.kill_once(&target.kill, row, &mut month);
                self.month = Some(month);
                outcome
            };
            if !matches!(last, Ok(None)) {
                break;
            }
        }
        let name = format!("{kind:4}  {:56}", target.kill.point);
        match last {
            Ok(Some(report)) => println!("{row:4}  {name}  {report}"),
            Ok(None) => {
                sum.lock().unwrap().missed += 1;
                println!("{row:4}  {name}  not reached in {TRIES} sessions; all saved");
            }
            Err(error) => {
                println!("{row:4}  {name}  FAILED\n{error:?}");
                let failed = format!("{name}: {error:#}");
                sum.lock().unwrap().failed.push(failed);
                // A broken site would fail every later point.
                *self = Self::begin(self.is_served)?;
            }
        }
        Ok(())
    }

    /// A drive that a session has saved.
    fn used(&self) -> anyhow::Result<Month> {
        let mut month = Month::new(USED.to_owned());
        month.reference_run(&self.site, &[LINES])?;
        Ok(month)
    }

    /// Runs a killed session and one that recovers; `None` if the point was not reached.
    fn kill_once(
        &self,
        kill: &Kill,
        row: usize,
        month: &mut Month,
    ) -> anyhow::Result<Option<String>> {
        let trace = self.site.path("trace");
        let tag = format!("kill-{row}-{}", month.lines());
        let command = ["sh", "-c", WRITE, &tag, LINES];
        let killed = self
            .site
            .session(&month.drive, &command, Some((&trace, Some(kill))))?;
        // A session killed before its first point leaves no trace.
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
