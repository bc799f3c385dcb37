//! `xdrive gc` for one drive: saved as any run would save it, then pruned. A dry run only returns
//! what would be done.

use crate::cloud::Cloud;
use crate::config::{Config, Options, Reach};
use crate::drive::Outcome;
use crate::drive::plan::{Done, Goal, Next};
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::signals::End;
use crate::ssh::UserKey;

use super::outcome::run_failure;
use super::progress;
use super::request::Request;
use super::state::Session;

/// Saves what no session uses.
const GOAL: Goal = Goal::Saved {
    even_if_used: false,
};

/// The result for a drive that never held anything, or was deleted meanwhile.
const NOTHING: &str = "nothing is left";

/// The result for one drive.
#[derive(Debug)]
pub struct Finished {
    /// In words: `saved`, `in use`, or the problem.
    pub result: String,
    /// What was pruned, or would be done; in words, as `--json` has them.
    pub steps: Vec<String>,
    /// The same for people, with names before ids.
    pub lines: Vec<String>,
    /// Why the drive could not be saved, if so.
    pub failure: Option<Failure>,
    /// The first signal that asked for the end, if one did.
    pub asked: Option<End>,
}

/// Saves `drive` and deletes snapshots that later ones supersede; the newest `keep` final ones
/// stay, or all without `keep`. A `dry_run` changes nothing.
pub async fn finish_drive(
    drive: DriveName,
    cloud: &Cloud,
    (key, reach): (UserKey, Reach),
    keep: Option<usize>,
    dry_run: bool,
) -> Result<Finished, Failure> {
    let config = Config {
        dry_run,
        ..Config::default()
    };
    let options = Options {
        config,
        reach,
        ..Options::default()
    };
    let request = Request::of(drive, options);
    let mut session = Session::begin(request, cloud.clone(), key).await?;
    if dry_run {
        return session.foresee_finish(keep).await;
    }
    let (outcome, asked) = session.run(GOAL).await;
    session.report_commit();
    let mut finished = Finished {
        result: "saved".to_owned(),
        steps: Vec::new(),
        lines: Vec::new(),
        failure: None,
        asked,
    };
    match outcome {
        Outcome::Busy(holder) => {
            finished.result = format!("in use on {} by {}", holder.instance.its(), holder.owner);
        }
        Outcome::Saved { .. } | Outcome::Unwound { .. } => {
            if let Outcome::Saved { snapshot: None, .. } = outcome {
                NOTHING.clone_into(&mut finished.result);
            }
            if let Some(keep) = keep {
                session.prune(keep, &mut finished).await;
            }
        }
        outcome => {
            finished.failure = session.report_outcome(outcome).err();
            "not finished".clone_into(&mut finished.result);
        }
    }
    Ok(finished)
}

impl Session {
    /// Deletes the drive's older saves but for the newest `keep`, until a signal asks for the end.
    async fn prune(&mut self, keep: usize, finished: &mut Finished) {
        let mut gone = Vec::new();
        let goes_on = || {
            let came = self.signals.asked();
            finished.asked = finished.asked.or(came);
            finished.asked.is_none()
        };
        let pruned = self
            .reconciler
            .prune((keep, None), &mut gone, goes_on)
            .await;
        finished.failure = pruned.map_err(run_failure).err();
        let steps = gone.iter().map(|id| format!("deleted old snapshot ({id})"));
        finished.steps = steps.collect();
        let old = format!("{}'s old", self.request.drive);
        let lines = gone.iter().map(|id| format!("deleted {}", id.after(&old)));
        finished.lines = lines.collect();
    }

    /// What finishing the drive would do; nothing is changed.
    async fn foresee_finish(&mut self, keep: Option<usize>) -> Result<Finished, Failure> {
        self.reconciler.hosts().only_look();
        let preview = self.reconciler.preview(&GOAL, keep).await;
        let (next, outdated) = preview.map_err(run_failure)?;
        let (mut failure, mut waits) = (None, None);
        let (result, mut foreseen) = match next {
            Next::Do(steps) => ("to be finished", steps),
            Next::Wait(what, _) => {
                waits = Some(progress::waiting(&what));
                ("to be finished", Vec::new())
            }
            Next::Busy(_) => ("in use", Vec::new()),
            Next::Done(Done::Saved(None)) => (NOTHING, Vec::new()),
            Next::Done(_) => ("saved", Vec::new()),
            Next::Stuck(stuck) => {
                failure = self.report_outcome(Outcome::Stuck(stuck)).err();
                ("not to be finished", Vec::new())
            }
        };
        foreseen.extend(outdated);
        let drive = &self.request.drive;
        let steps = foreseen.iter().map(ToString::to_string);
        let lines = foreseen.iter().map(|step| progress::doing(step, drive));
        Ok(Finished {
            result: result.to_owned(),
            steps: waits.clone().into_iter().chain(steps).collect(),
            lines: waits.into_iter().chain(lines).collect(),
            failure,
            asked: None,
        })
    }
}
