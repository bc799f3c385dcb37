//! One drive of `xdrive gc`: finished as any run would finish it, then cleared of what it does not
//! need. With a rehearsal only said, and nothing changed.

use crate::cloud::Cloud;
use crate::config::{Options, Reach};
use crate::drive::plan::{Goal, Next};
use crate::drive::{DriveName, Outcome};
use crate::failure::Failure;
use crate::signals::Signal;
use crate::ssh::UserKey;

use super::outcome::of_run;
use super::{Request, Session};

/// The drive is finished, but never taken from anybody who uses it.
const GOAL: Goal = Goal::Saved {
    even_if_used: false,
};

/// What came of one drive.
#[derive(Debug)]
pub struct Finished {
    /// In words: `saved`, `in use`, or what is wrong.
    pub result: String,
    /// What was cleared away, or would be done; a line each.
    pub steps: Vec<String>,
    /// Why it is not finished, if it is not, with a way to go on.
    pub failure: Option<Failure>,
    /// Whether somebody asked for the end meanwhile.
    pub asked: Option<Signal>,
}

/// Finishes what can be finished of a drive and clears away what later snapshots supersede; of the
/// final ones the newest `keep` stay, all if none is given. With `rehearse` nothing is changed.
pub async fn finish_drive(
    drive: DriveName,
    cloud: &Cloud,
    (key, reach): (UserKey, Reach),
    keep: Option<usize>,
    rehearse: bool,
) -> Result<Finished, Failure> {
    let options = Options {
        reach,
        ..Options::default()
    };
    let mut session = Session::begin(Request::of(drive, options), cloud.clone(), key).await?;
    if rehearse {
        return session.rehearse(keep).await;
    }
    let (outcome, asked) = session.run(GOAL).await;
    session.report_commit();
    let mut finished = Finished {
        result: "saved".to_owned(),
        steps: Vec::new(),
        failure: None,
        asked,
    };
    match outcome {
        Outcome::Busy(holder) => {
            finished.result = format!("in use on {} by {}", holder.instance, holder.owner);
        }
        Outcome::Saved { .. } | Outcome::Unwound { .. } => {
            if let Some(keep) = keep {
                let gone = session.reconciler.prune(keep).await;
                let gone = gone.map_err(of_run)?;
                finished.steps = gone.iter().map(|id| format!("deleted old {id}")).collect();
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
    async fn rehearse(&mut self, keep: Option<usize>) -> Result<Finished, Failure> {
        self.reconciler.hosts().only_look();
        let foreseen = self.reconciler.foresee(&GOAL, keep).await;
        let (next, outdated) = foreseen.map_err(of_run)?;
        let mut failure = None;
        let (result, mut steps) = match next {
            Next::Do(steps) => (
                "to be finished",
                steps.iter().map(ToString::to_string).collect(),
            ),
            Next::Wait(what, _) => ("to be finished", vec![super::progress::waiting(&what)]),
            Next::Busy(_) => ("in use", Vec::new()),
            Next::Done(_) => ("saved", Vec::new()),
            Next::Stuck(stuck) => {
                failure = self.report_outcome(Outcome::Stuck(stuck)).err();
                ("not to be finished", Vec::new())
            }
        };
        steps.extend(outdated.iter().map(ToString::to_string));
        Ok(Finished {
            result: result.to_owned(),
            steps,
            failure,
            asked: None,
        })
    }
}
