//! A tender killed at every point of a pass over a run whose host was lost, or that has ended, and then
//! another one: each try has begun once, the run is marked as done, and nothing else is left.

use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use harness::pace::Pace;

use crate::jobs::side_by_side;
use crate::points::{self, Kill, Passed};
use crate::running::Ended;
use crate::site::Site;

/// How long a host may take to begin its try, or to switch itself off.
const SOON: Duration = Duration::from_mins(3);
/// How long after the pass that began it a try may take to write its number.
const BEGUN: Duration = Duration::from_secs(20);
/// The most passes that an end may take.
const PASSES: u32 = 6;
/// How often a point is tried that a pass may skip.
const TRIES: u32 = 3;
/// Another laptop than that of the run and of the tender that is killed.
const OTHER: &str = "another";
/// One pass.
const TEND: [&str; 2] = ["tend", "--once"];

/// A point of a pass.
struct Target {
    /// Whether the run has ended before; else its host was lost.
    is_over: bool,
    kill: Kill,
}

/// The pass that is swept.
struct Pass<'a> {
    site: &'a Site,
    drive: String,
}

pub(crate) fn killed(pace: &mut Pace) -> anyhow::Result<()> {
    let first = Site::new(false)?;
    let mut targets = Vec::new();
    for is_over in [false, true] {
        let pass = Pass::new(&first, format!("undisturbed-{is_over}"));
        pass.prepare(is_over)?;
        let (tended, passed) = pass.tend(None)?;
        ensure!(tended.code == 0, "the pass failed: {tended:?}");
        pass.finish(is_over)?;
        targets.extend(passed.iter().enumerate().map(|(index, point)| Target {
            is_over,
            kill: Kill {
                point: point.name.clone(),
                after: points::middle(&passed, index),
            },
        }));
    }
    let all = targets.len();
    println!("{all} points; run, point: seconds to the kill and to the end, tries");
    let targets = pace.choose(targets);
    let (first, failed) = (Mutex::new(Some(first)), Mutex::new(Vec::new()));
    let missed = Mutex::new(0);
    let taken = side_by_side(
        pace,
        &targets,
        || {
            first
                .lock()
                .unwrap()
                .take()
                .map_or_else(|| Site::new(false), Ok)
        },
        |site, row, target| {
            let run = if target.is_over { "over" } else { "lost" };
            let name = format!("{run}  {:56}", target.kill.point);
            match target.take(site, row) {
                Ok(Some(report)) => println!("{row:4}  {name}  {report}"),
                Ok(None) => *missed.lock().unwrap() += 1,
                Err(error) => {
                    println!("{row:4}  {name}  FAILED\n{error:?}");
                    failed.lock().unwrap().push(format!("{name}: {error:#}"));
                    // A broken site would fail every later point.
                    *site = Site::new(false)?;
                }
            }
            Ok(())
        },
    )?;
    let (failed, missed) = (failed.into_inner()?, missed.into_inner()?);
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

impl Target {
    /// Kills a tender at the point, and has another one finish; `None` if the point was not reached.
    fn take(&self, site: &Site, row: usize) -> anyhow::Result<Option<String>> {
        for attempt in 1..=TRIES {
            let pass = Pass::new(site, format!("run-{row}-{attempt}"));
            pass.prepare(self.is_over)?;
            let (killed, _) = pass.tend(Some(&self.kill))?;
            let began = Instant::now();
            let tries = pass.finish(self.is_over);
            let tries = tries.with_context(|| format!("{}\n{}", killed.code, killed.stderr))?;
            if killed.code == 137 {
                let [kill, end] = [killed.took, began.elapsed()].map(|it| it.as_secs_f64());
                return Ok(Some(format!("{kill:5.1} {end:5.1}  {tries}")));
            }
            ensure!(killed.code == 0, "the pass failed by itself: {killed:?}");
        }
        Ok(None)
    }
}

impl<'a> Pass<'a> {
    fn new(site: &'a Site, drive: String) -> Self {
        Self { site, drive }
    }

    /// Begins a run, and loses its host, or waits until the run and its host have ended.
    fn prepare(&self, is_over: bool) -> anyhow::Result<()> {
        // It ends in its second try.
        let last = if is_over { 1 } else { 2 };
        let command = format!(
            "echo $XDRIVE_TRY >>/work/tries; sync; [ $XDRIVE_TRY -ge {last} ] || sleep 10000"
        );
        let image = self.site.image("small.tar")?;
        let words = [
            "run",
            &self.drive,
            "-d",
            "--restart",
            "--no-jupyter",
            "--image",
            &image,
        ];
        let begun = [
            &words[..],
            &["--fallback", "none", "--", "sh", "-c", &command],
        ]
        .concat();
        let begun = self.site.xdrive(&begun)?;
        ensure!(begun.code == 0, "the run did not begin: {begun:?}");
        if !is_over {
            self.soon("try 1", || Ok(self.tries()? == ["1"]))?;
            self.site.interrupt(Duration::ZERO)?;
        }
        self.is_gone()
    }

    /// The pass, traced and killed there, and the points that it passed.
    fn tend(&self, kill: Option<&Kill>) -> anyhow::Result<(Ended, Vec<Passed>)> {
        let trace = self.site.path("trace");
        let pass = [&TEND[..], &[&self.drive]].concat();
        let ended = self
            .site
            .client("home", &pass, Some((&trace, kill)))?
            .end()?;
        // A pass killed before its first point leaves no trace.
        let passed = points::read(&trace).unwrap_or_default();
        std::fs::remove_file(&trace).context("the trace")?;
        Ok((ended, passed))
    }

    /// Has another tender finish, and checks what is left; returns the number of tries.
    fn finish(&self, is_over: bool) -> anyhow::Result<usize> {
        let due = if is_over { 1 } else { 2 };
        let mut printed = String::new();
        for _ in 0..PASSES {
            if self.site.is_running()? {
                // A host that the tender left before the try began ends with its lease: in minutes.
                let is_begun = || Ok(self.tries()?.len() >= due);
                if self.within(BEGUN, "the last try", is_begun).is_err() {
                    self.site.interrupt(Duration::ZERO)?;
                }
                self.is_gone()?;
            }
            let tended = self
                .site
                .laptop(OTHER, &[&TEND[..], &[&self.drive]].concat())?;
            let tended = tended.end()?;
            printed.push_str(&tended.stderr);
            ensure!(tended.code == 0, "the next tender failed: {printed}");
            if self.is_done()? && !self.site.is_running()? {
                return self.check(due).with_context(|| printed);
            }
        }
        bail!("it never ends: {printed}");
    }

    fn check(&self, due: usize) -> anyhow::Result<usize> {
        let tries = self.tries()?;
        let numbers: Vec<String> = (1..=tries.len()).map(|it| it.to_string()).collect();
        ensure!(
            tries == numbers && tries.len() >= due,
            "the tries {tries:?}"
        );
        let generations = self.site.generations(&self.drive)?;
        let mut distinct = generations.clone();
        distinct.dedup();
        ensure!(distinct == generations, "two lines: {generations:?}");
        let left = self.site.left()?;
        ensure!(left.is_empty(), "left: {}", left.join("\n"));
        self.site.count_snapshots(&self.drive, true)?;
        Ok(tries.len())
    }

    /// The numbers of the tries that have begun, in their order.
    fn tries(&self) -> anyhow::Result<Vec<String>> {
        let file = format!("{}:tries", self.drive);
        let shown = self.site.laptop(OTHER, &["cat", &file])?.end()?;
        Ok(shown.stdout.lines().map(str::to_owned).collect())
    }

    /// Whether nobody wants the run any more, and it ended well.
    fn is_done(&self) -> anyhow::Result<bool> {
        let words = ["ps", &self.drive, "--all", "--json"];
        let shown = self.site.laptop(OTHER, &words)?.end()?;
        let rows: serde_json::Value = serde_json::from_str(&shown.stdout)?;
        let waiting = self.site.laptop(OTHER, &["ps", &self.drive])?.end()?;
        let is_well = rows[0]["state"] == "ended" && rows[0]["status"] == 0;
        Ok(is_well && !waiting.stdout.contains("waits"))
    }

    fn is_gone(&self) -> anyhow::Result<()> {
        self.soon("no instance", || Ok(!self.site.is_running()?))
    }

    fn soon(&self, what: &str, holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        self.within(SOON, what, holds)
    }

    fn within(
        &self,
        limit: Duration,
        what: &str,
        holds: impl Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !holds()? {
            ensure!(began.elapsed() < limit, "{}: never: {what}", self.drive);
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}
