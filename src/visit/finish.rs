//! `xdrive gc` for one drive: saved as any run would save it, then pruned. A dry run only returns
//! what would be done.

use super::visitor::{Visit, Visitor};
use crate::cloud::Cloud;
use crate::drive::Outcome;
use crate::drive::plan::{Done, Goal, Next};
use crate::failure::Failure;
use crate::opener::{Drive, Opening, describe_step, run_failure, waiting};
use crate::signals::End;

/// Saves what no session uses.
const GOAL: Goal = Goal::Saved {
    even_if_used: false,
};

/// The result for a drive that never held anything, or was deleted meanwhile.
const NOTHING: &str = "nothing is left";

/// The result for one drive.
#[derive(Debug)]
pub(crate) struct Finished {
    /// In words: `saved`, `in use`, or the problem.
    pub(crate) result: String,
    /// The snapshots that were pruned; of a dry run all steps that would be taken. In words, as
    /// `--json` has them.
    pub(crate) steps: Vec<String>,
    /// The steps for people, with names before ids.
    pub(crate) lines: Vec<String>,
    /// Why the drive could not be saved, if so.
    pub(crate) failure: Option<Failure>,
    /// The first signal that asked for the end, if one did.
    pub(crate) asked: Option<End>,
}

/// Saves the drive of this `opening` and deletes snapshots that later ones supersede; the newest `keep`
/// final ones stay, or all without `keep`. A dry run changes nothing.
pub(crate) async fn finish_drive(
    opening: Opening,
    cloud: &Cloud,
    visitor: Visitor,
    keep: Option<usize>,
) -> Result<Finished, Failure> {
    let dry_run = opening.dry_run;
    let drive = Drive::begin(opening, cloud.clone()).await?;
    let mut visit = Visit::new(drive, visitor, false)?;
    if dry_run {
        return foresee(&mut visit, keep).await;
    }
    let (outcome, asked) = visit.run(GOAL).await;
    visit.drive.report_commit(&mut visit.reconciler);
    let mut finished = Finished {
        result: "saved".to_owned(),
        steps: Vec::new(),
        lines: Vec::new(),
        failure: None,
        asked,
    };
    match outcome {
        Outcome::Busy(holder) => {
            finished.result = format!(
                "in use on {} by {}",
                holder.instance.short_label(),
                holder.owner
            );
        }
        Outcome::Saved { .. } | Outcome::Unwound { .. } => {
            if let Outcome::Saved { snapshot: None, .. } = outcome {
                NOTHING.clone_into(&mut finished.result);
            }
            if let Some(keep) = keep {
                prune(&mut visit, keep, &mut finished).await;
            }
        }
        outcome => {
            let reported = visit.drive.report_outcome(&mut visit.reconciler, outcome);
            finished.failure = reported.err();
            "not finished".clone_into(&mut finished.result);
        }
    }
    Ok(finished)
}

/// Deletes the drive's older saves but for the newest `keep`, until a signal asks for the end.
async fn prune(visit: &mut Visit, keep: usize, finished: &mut Finished) {
    let Visit {
        drive, reconciler, ..
    } = visit;
    let mut gone = Vec::new();
    let goes_on = || {
        let came = drive.signals.asked();
        finished.asked = finished.asked.or(came);
        finished.asked.is_none()
    };
    let pruned = reconciler.prune((keep, None), &mut gone, goes_on).await;
    finished.failure = pruned.map_err(run_failure).err();
    let steps = gone.iter().map(|id| format!("deleted old snapshot ({id})"));
    finished.steps = steps.collect();
    let old = format!("{}'s old", drive.name);
    let lines = gone.iter().map(|id| format!("deleted {}", id.after(&old)));
    finished.lines = lines.collect();
}

/// Plans the finish of the drive; nothing is changed.
async fn foresee(visit: &mut Visit, keep: Option<usize>) -> Result<Finished, Failure> {
    let Visit {
        drive, reconciler, ..
    } = visit;
    reconciler.hosts().only_look();
    let preview = reconciler.preview(&GOAL, keep).await;
    let (next, outdated) = preview.map_err(run_failure)?;
    let (mut failure, mut waits) = (None, None);
    let (result, mut foreseen) = match next {
        Next::Do(steps) => ("to be finished", steps),
        Next::Wait(what, _) => {
            waits = Some(waiting(&what));
            ("to be finished", Vec::new())
        }
        Next::Busy(_) => ("in use", Vec::new()),
        Next::Done(Done::Saved(None)) => (NOTHING, Vec::new()),
        Next::Done(_) => ("saved", Vec::new()),
        Next::Stuck(stuck) => {
            let reported = drive.report_outcome(reconciler, Outcome::Stuck(stuck));
            failure = reported.err();
            ("not to be finished", Vec::new())
        }
    };
    foreseen.extend(outdated);
    let drive = &drive.name;
    let steps = foreseen.iter().map(ToString::to_string);
    let lines = foreseen.iter().map(|step| describe_step(step, drive));
    Ok(Finished {
        result: result.to_owned(),
        steps: waits.clone().into_iter().chain(steps).collect(),
        lines: waits.into_iter().chain(lines).collect(),
        failure,
        asked: None,
    })
}
