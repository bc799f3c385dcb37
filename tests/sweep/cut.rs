//! Power cuts at seeded moments, then one more connect: all synced data is there, and the drive
//! works.
//!
//! Five phases of a session are cut in turn: *start*, from the attached volume to the running
//! container; *writes*, with unsynced files beside the journal's (half of both on a new drive: in
//! the middle of `mkfs`, and right after its image was loaded); *checkpoint*, amid such writes,
//! from the sync to a snapshot under way; *commit* of the container's layer; *close*, all of it.
//! Every other time the laptop is killed at the same moment; else xdrive notices the cut and does
//! what it can.
//!
//! A line counts as acknowledged if its acknowledgement was received before the cut. The writer
//! outlives its file system by a moment here, and an `fsync(2)` that is under way then may succeed
//! though nothing was written: the transaction that it waits for is neither running nor committing
//! any more, because the journal was aborted (`jbd2_complete_transaction`, fs/jbd2/journal.c).
//! After a real power cut no program is left to receive that.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::jobs::side_by_side;
use crate::journal::{WRITE, acknowledged};
use crate::month::Month;
use crate::points::Passed;
use crate::running::{Ended, Running};
use crate::site::Site;
use harness::pace::Pace;

/// How many cuts make a whole sweep.
const CUTS: usize = 40;
/// How long the moment may take to come.
const MOMENT: Duration = Duration::from_mins(1);

/// The lines of a session that is not cut.
const WRITES: [&str; 2] = ["1 2 3", "busy"];

/// A site, and its drive that lives through all the cuts.
struct Worker {
    site: Site,
    month: Month,
    /// Whether a session has saved it.
    is_used: bool,
}

/// The phase in which a session is cut.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Start { is_new: bool },
    Writes { is_new: bool },
    Checkpoint,
    Commit,
    Close,
}

/// A session to be cut off.
struct Session {
    phase: Phase,
    moment: Moment,
    /// Whether the laptop is killed at the same moment.
    is_killed: bool,
}

/// A moment: so long after this event.
#[derive(Debug)]
struct Moment {
    after: After,
    by: Duration,
}

#[derive(Debug)]
enum After {
    Point(String),
    Lines(usize),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start { is_new: true } => "first start",
            Self::Start { is_new: false } => "start",
            Self::Writes { is_new: true } => "first writes",
            Self::Writes { is_new: false } => "writes",
            Self::Checkpoint => "checkpoint",
            Self::Commit => "commit",
            Self::Close => "close",
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.by.as_secs_f64() * 1000.0;
        let text = match &self.after {
            After::Point(name) => format!("{by:.1} ms after {name}"),
            After::Lines(count) => format!("{by:.1} ms after line {count}"),
        };
        f.pad(&text)
    }
}

const PHASES: [Phase; 10] = [
    Phase::Start { is_new: true },
    Phase::Writes { is_new: false },
    Phase::Commit,
    Phase::Close,
    Phase::Checkpoint,
    Phase::Start { is_new: false },
    Phase::Writes { is_new: true },
    Phase::Commit,
    Phase::Close,
    Phase::Checkpoint,
];

pub(crate) fn at_seeded_moments(pace: &mut Pace) -> anyhow::Result<()> {
    let mut first = Worker::begin()?;
    let made = first.month.reference_run(&first.site, &WRITES)?;
    let used = first.month.reference_run(&first.site, &WRITES)?;
    first.is_used = true;
    println!(
        "phase, moment: what was there to cut, lines acknowledged, the client's exit code, seconds \
         to its end and to recover"
    );
    let from = pace.random(PHASES.len());
    let sessions: Vec<_> = (0..pace.count(CUTS))
        .map(|index| {
            let phase = PHASES[(from + index) % PHASES.len()];
            let passed = if phase.is_on_a_new_drive() {
                &made
            } else {
                &used
            };
            anyhow::Ok(Session {
                phase,
                moment: moment(phase, passed, pace)?,
                is_killed: pace.random(2) == 0,
            })
        })
        .collect::<Result<_, _>>()?;
    let (first, failed) = (Mutex::new(Some(first)), Mutex::new(Vec::new()));
    let done = side_by_side(
        pace,
        &sessions,
        || match first.lock().unwrap().take() {
            Some(first) => Ok(first),
            None => Worker::begin(),
        },
        |worker, row, session| worker.session(row, session, &failed),
    )?;
    let failed = failed.into_inner()?;
    println!("{done} cuts, {} failed", failed.len());
    ensure!(failed.is_empty(), "failed at\n{}", failed.join("\n"));
    Ok(())
}

impl Worker {
    fn begin() -> anyhow::Result<Self> {
        Ok(Self {
            site: Site::new(false)?,
            month: Month::new("month".to_owned()),
            is_used: false,
        })
    }

    /// Cuts one session off, and reports.
    fn session(
        &mut self,
        row: usize,
        session: &Session,
        failed: &Mutex<Vec<String>>,
    ) -> anyhow::Result<()> {
        let mut new = Month::new(format!("new-{row}"));
        let drive = if session.phase.is_on_a_new_drive() {
            &mut new
        } else {
            if !self.is_used {
                self.month.reference_run(&self.site, &WRITES)?;
                self.is_used = true;
            }
            &mut self.month
        };
        let row = format!("{row:3}  {:12}  {:48}  ", session.phase, session.moment);
        match session.cut(&self.site, drive) {
            Ok(text) => println!("{row}{text}"),
            Err(error) => {
                println!("{row}FAILED\n{error:?}");
                failed.lock().unwrap().push(format!("{row}: {error:#}"));
                // A broken site would fail every later moment.
                *self = Self::begin()?;
            }
        }
        Ok(())
    }
}

/// A moment of `phase`, in a session with the times of `passed`.
fn moment(phase: Phase, passed: &[Passed], pace: &mut Pace) -> anyhow::Result<Moment> {
    let find = |name: &str| {
        let index = passed.iter().position(|point| point.name == name);
        index.with_context(|| format!("no session passes {name:?}"))
    };
    let (from, to) = match phase {
        Phase::Start { .. } => ("AttachVolume#1 answered", "container start#1 ended"),
        Phase::Writes { .. } => {
            return Ok(Moment {
                after: After::Lines(1 + pace.random(40)),
                by: Duration::from_micros(pace.random(30_000) as u64),
            });
        }
        Phase::Checkpoint => {
            let (name, within) = [
                ("drive sync#1 during", 300_000),
                ("CreateSnapshot#1 during", 150_000),
            ][pace.random(2)];
            return Ok(Moment {
                after: After::Point(name.to_owned()),
                by: Duration::from_micros(pace.random(within) as u64),
            });
        }
        Phase::Commit => ("close#1 ms.stop", "close#1 ms.commit"),
        Phase::Close => ("close#1 during", "close#1 ended"),
    };
    let (from, to) = (find(from)?, find(to)?);
    let span = passed[to].at.saturating_sub(passed[from].at);
    let micros = usize::try_from(span.as_micros()).context("a long session")?;
    let at = passed[from].at + Duration::from_micros(pace.random(micros) as u64);
    // Counted from the last point before it, since earlier steps may take another time.
    let before = passed[from..to].iter().rev().find(|point| point.at <= at);
    let before = before.unwrap_or(&passed[from]);
    Ok(Moment {
        after: After::Point(before.name.clone()),
        by: at.saturating_sub(before.at),
    })
}

impl Phase {
    /// Whether it is on a new drive, else on the one that lived through the cuts before.
    fn is_on_a_new_drive(self) -> bool {
        match self {
            Self::Start { is_new } | Self::Writes { is_new } => is_new,
            // Whose many lines are not read again each time.
            Self::Checkpoint => true,
            Self::Commit | Self::Close => false,
        }
    }
}

impl Session {
    /// Starts it, cuts it off, and runs another one to recover.
    fn cut(&self, site: &Site, month: &mut Month) -> anyhow::Result<String> {
        let trace = site.path("trace");
        let tag = format!("cut-{}", month.lines());
        // For a cut amid writes, more than can be written before it.
        let (last, flags): (u32, &[&str]) = match self.phase {
            Phase::Writes { .. } => (2000, &[]),
            Phase::Checkpoint => (10_000, &["--checkpoint", "15s"]),
            _ => (3, &[]),
        };
        let lines: Vec<_> = (1..=last).map(|line| line.to_string()).collect();
        let lines = lines.join(" ");
        let command = ["sh", "-c", WRITE, &tag, &lines, "busy"];
        let mut switch = Switch::new(site)?;
        let mut client = site.start_with(flags, &month.drive, &command, Some((&trace, None)))?;
        let came = wait_for(&self.moment, &mut client, &trace)?;
        let stdout = client.printed();
        let found = switch.flip()?;
        if self.is_killed {
            client.kill()?;
        }
        let ended = Ended {
            stdout,
            ..client.end()?
        };
        fs::remove_file(&trace)?;
        let read = month.recover(site, &tag, &ended)?;
        Ok(format!(
            "{:12}  {:3}  {:3}  {:5.1} {:5.1}{}",
            found,
            acknowledged(&ended.stdout),
            ended.code,
            ended.took.as_secs_f64(),
            read.took.as_secs_f64(),
            if came { "" } else { "  too late" },
        ))
    }
}

/// Waits for the moment; false if the session was over before.
fn wait_for(moment: &Moment, client: &mut Running, trace: &Path) -> anyhow::Result<bool> {
    let began = Instant::now();
    loop {
        let is_there = match &moment.after {
            After::Lines(count) => acknowledged(&client.printed()) >= *count,
            After::Point(name) => fs::read_to_string(trace)
                .unwrap_or_default()
                .contains(&format!("\t{name}\n")),
        };
        if is_there {
            std::thread::sleep(moment.by);
            return Ok(true);
        }
        if client.is_over()? {
            return Ok(false);
        }
        if began.elapsed() > MOMENT {
            bail!("{moment} did not come");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The program that cuts the power, started beforehand so that it acts at once.
pub(crate) struct Switch {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Switch {
    pub(crate) fn new(site: &Site) -> anyhow::Result<Self> {
        let mut child = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sweep/cut.py"))
            .arg(site.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut switch = Self {
            child,
            stdout: BufReader::new(stdout),
        };
        switch.line()?;
        Ok(switch)
    }

    pub(crate) fn flip(&mut self) -> anyhow::Result<String> {
        let mut stdin = self.child.stdin.take().context("flipped already")?;
        writeln!(stdin)?;
        self.line()
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the power could not be cut");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
