//! Every call to EC2 fails once, in every way: nothing is lost, forked, or left without being
//! named.
//!
//! On paper, in tokio's paused time (see `tests/harness/simulation`): the real reconciler and the
//! real SDK against the EC2 in a folder. A *case* is one way to fail of one call in a session, from
//! one past of the drive, with lists that are fresh or ten seconds old. The session may end in any
//! way, but must name what is billed afterwards; then one more session must save the drive with
//! every acknowledged note.

use std::sync::Mutex;

use anyhow::ensure;
use tokio::runtime::Runtime;
use xdrive::drive::Outcome;

use crate::jobs::side_by_side;
use harness::pace::Pace;
use harness::simulation::wire::{Calls, Fault, WAYS};
use harness::simulation::{Ask, FRESH, RunReport, Staleness, Trouble, World};

/// Nearly the greatest staleness ever seen in lists; reads by id lag less.
const OLD: Staleness = Staleness {
    lists: 10_000,
    reads: 2_000,
};

/// The drive's past.
#[derive(Debug, Clone, Copy)]
enum Past {
    /// There is no drive.
    New,
    /// The drive was saved.
    Saved,
    /// The drive's xdrive was killed in the shell, and then its instance vanished.
    Crashed,
}

/// A past with one staleness of lists, and how many calls its session makes.
struct Scene {
    past: Past,
    stale: Staleness,
    runtime: Runtime,
    world: World,
    changes: usize,
    looks: usize,
}

/// The results of one way to fail, over all calls.
#[derive(Default)]
struct Row {
    cases: usize,
    saved_at_once: usize,
    saved_by_the_next: usize,
    failed: Vec<String>,
}

pub(crate) fn every_call(pace: &mut Pace) -> anyhow::Result<()> {
    let scenes = scenes()?;
    let mut cases = Vec::new();
    for (scene, made) in scenes.iter().enumerate() {
        let changes = (1..=made.changes).map(|number| (Calls::Changes, number));
        let looks = (1..=made.looks).map(|number| (Calls::Looks, number));
        for (calls, number) in changes.chain(looks) {
            for (way, (_, fault)) in WAYS.iter().enumerate() {
                if calls == Calls::Changes || happens_to_looks(made, *fault) {
                    cases.push((scene, calls, number, way));
                }
            }
        }
    }
    let all = cases.len();
    let cases = pace.choose(cases);
    let (scenes, rows) = (
        Mutex::new(Some(scenes)),
        Mutex::new(std::array::from_fn(|_| Row::default())),
    );
    let done = side_by_side(
        pace,
        &cases,
        || match scenes.lock().unwrap().take() {
            Some(scenes) => Ok(scenes),
            None => self::scenes(),
        },
        |scenes, _, &(scene, calls, number, way)| {
            let outcome = scenes[scene].run(calls, number, WAYS[way].1);
            rows.lock().unwrap()[way].add(outcome);
            Ok(())
        },
    )?;
    let rows: [Row; WAYS.len()] = rows.into_inner()?;
    println!(
        "{:24}  cases  saved at once  by the next run  failed",
        "a call is"
    );
    for ((name, _), row) in WAYS.iter().zip(&rows) {
        println!(
            "{name:24}  {:5}  {:13}  {:15}  {:6}",
            row.cases,
            row.saved_at_once,
            row.saved_by_the_next,
            row.failed.len()
        );
    }
    let failed: Vec<&str> = rows
        .iter()
        .flat_map(|row| row.failed.iter().map(String::as_str))
        .collect();
    println!("{done} of {all} cases, {} failed", failed.len());
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

/// Every past with every staleness of lists.
fn scenes() -> anyhow::Result<Vec<Scene>> {
    let mut scenes = Vec::new();
    for stale in [FRESH, OLD] {
        for past in [Past::New, Past::Saved, Past::Crashed] {
            scenes.push(Scene::new(past, stale)?);
        }
    }
    Ok(scenes)
}

impl Scene {
    fn new(past: Past, stale: Staleness) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()?;
        let (world, report) = runtime.block_on(async {
            let world = World::new(stale);
            match past {
                Past::New => {}
                Past::Saved => {
                    world.run(Ask::Session(1), Trouble::default()).await;
                }
                Past::Crashed => {
                    world.run(Ask::KilledInShell(1), Trouble::default()).await;
                    world.cut_power().await;
                }
            }
            let report = world.copy().run(Ask::Session(2), Trouble::default()).await;
            (world, report)
        });
        ensure!(is_saved(&report), "{past:?}, undisturbed: {report:#?}");
        Ok(Self {
            past,
            stale,
            runtime,
            world,
            changes: report.changes,
            looks: report.looks,
        })
    }

    /// Runs one case; returns whether the session itself saved, an error if a promise was broken.
    fn run(&self, calls: Calls, number: usize, fault: Fault) -> Result<bool, String> {
        self.runtime.block_on(async {
            let world = self.world.copy();
            let trouble = Trouble {
                fault: Some((calls, number, fault)),
                ..Trouble::default()
            };
            let report = world.run(Ask::Session(2), trouble).await;
            let unreported = world.unreported(&report).await;
            let next = world.run(Ask::Session(3), Trouble::default()).await;
            let mut problems = world.problems().await;
            problems.extend(unreported);
            if !is_saved(&next) {
                problems.push("the next run did not save".to_owned());
            }
            if problems.is_empty() {
                return Ok(is_saved(&report));
            }
            Err(format!(
                "{:?}, lists {} ms old, {fault:?} at number {number} of {calls:?}: {problems:#?}\n\
                 first: {report:#?}\nthen: {next:#?}",
                self.past, self.stale.lists
            ))
        })
    }
}

impl Row {
    fn add(&mut self, outcome: Result<bool, String>) {
        self.cases += 1;
        match outcome {
            Ok(true) => self.saved_at_once += 1,
            Ok(false) => self.saved_by_the_next += 1,
            Err(problem) => self.failed.push(problem),
        }
    }
}

/// Whether a fault happens to looks in a scene: the staleness of lists makes no difference to them.
fn happens_to_looks(scene: &Scene, fault: Fault) -> bool {
    fault.happens_to_looks() && scene.stale.lists == FRESH.lists
}

fn is_saved(report: &RunReport) -> bool {
    matches!(report.outcome, Some(Outcome::Saved { .. }))
}
