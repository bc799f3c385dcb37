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

use crate::jobs::side_by_side;
use harness::pace::Pace;
use harness::simulation::life::{Ended, Life, Past, Tally, ways_of};
use harness::simulation::wire::{Calls, WAYS};
use harness::simulation::{Ask, FRESH, Staleness, Trouble, World};

/// Nearly the greatest staleness ever seen in lists; reads by id lag less.
const OLD: Staleness = Staleness {
    lists: 10_000,
    reads: 2_000,
};

/// A session from one past, with one staleness of lists.
struct Scene {
    past: Past,
    stale: Staleness,
    runtime: Runtime,
    life: Life,
}

pub(crate) fn every_call(pace: &mut Pace) -> anyhow::Result<()> {
    let scenes = scenes()?;
    let mut cases = Vec::new();
    for (scene, made) in scenes.iter().enumerate() {
        for calls in [Calls::Changes, Calls::Looks] {
            // The staleness of lists makes no difference to looks that fail.
            if calls == Calls::Looks && made.stale.lists != FRESH.lists {
                continue;
            }
            for way in ways_of(calls) {
                let troubles = made.life.each_failing(calls, WAYS[way].1);
                cases.extend(troubles.map(|trouble| (scene, way, trouble)));
            }
        }
    }
    let all = cases.len();
    let cases = pace.choose(cases);
    let (scenes, tally) = (Mutex::new(Some(scenes)), Mutex::new(Tally::default()));
    side_by_side(
        pace,
        &cases,
        || match scenes.lock().unwrap().take() {
            Some(scenes) => Ok(scenes),
            None => self::scenes(),
        },
        |scenes, _, (scene, way, trouble)| {
            let (ended, broken) = scenes[*scene].run(trouble);
            tally.lock().unwrap().add(*way, &ended, broken);
            Ok(())
        },
    )?;
    let broken = tally.into_inner()?.print(all);
    ensure!(broken.is_empty(), "{}", broken.join("\n\n"));
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
        let life = runtime.block_on(async {
            Life::new(World::with_past(past, stale).await, Ask::Session(2)).await
        });
        let report = &life.undisturbed;
        ensure!(report.is_saved(), "{past:?}, undisturbed: {report:#?}");
        Ok(Self {
            past,
            stale,
            runtime,
            life,
        })
    }

    /// Runs one case; returns how the session ended, and which promise was broken.
    fn run(&self, trouble: &Trouble) -> (Ended, Option<String>) {
        self.runtime.block_on(async {
            let (world, report) = self.life.again(trouble).await;
            let (next, problems) = world.made_good(&report, Ask::Session(3)).await;
            let ended = Ended::new(report.outcome.as_ref().unwrap());
            let broken = (!problems.is_empty()).then(|| {
                format!(
                    "{:?}, lists {} ms old, {trouble:?}: {problems:#?}\n\
                     first: {report:#?}\nthen: {next:#?}",
                    self.past, self.stale.lists
                )
            });
            (ended, broken)
        })
    }
}
