//! The ways out of a drive's name, which `delete` and `rename` go: of a drive at rest, by the plan.

use anyhow::anyhow;

use super::no_hosts::NoHosts;
use crate::cloud::Cloud;
use crate::drive::{Goal, Outcome};
use crate::failure::{Exit, Failure};
use crate::opener::{Drive, Ending, run_failure};

/// Refuses a drive that is not there, or not wholly saved.
pub(super) fn demand_rest(opened: &Drive) -> Result<(), Failure> {
    let (facts, drive, command) = (&opened.facts, &opened.name, &opened.cloud.command);
    let has_volume = facts.volumes_left().next().is_some();
    let part = match &facts.host {
        Some(host) => host.id.short_label(),
        None if has_volume => "a volume".to_owned(),
        None if facts.snapshots.is_empty() => return Err(Failure::no_drive(drive, command)),
        None => return Ok(()),
    };
    let error = anyhow!("{drive} is not at rest: it has {part}");
    let hint = format!("{command} stop {drive} saves it first");
    Err(Failure::new(Exit::TryAgain, error).hint(hint))
}

/// Runs towards `goal`, after which the drive has its name no more, and prints what is `done`. `same`
/// is the command that goes on after an interruption. Returns the exit code.
pub(super) async fn leave_name(
    drive: &mut Drive,
    goal: Goal,
    same: &str,
    done: &str,
) -> Result<u8, Failure> {
    let mut reconciler = drive.reconciler(NoHosts, drive.wanted()?, drive.progress());
    let (outcome, asked) = drive.run(&mut reconciler, goal).await;
    match outcome {
        Outcome::StoppedWaiting(left) => {
            Err(stop_failure(&drive.cloud, same).left(drive.billed(&left)))
        }
        Outcome::Failed(failed) => {
            let failure = run_failure(failed.error);
            let advice = failure.hint.clone().map(|hint| format!("{hint}\n      "));
            let goes_on = goes_on(&drive.cloud, same);
            let hint = format!("{}{goes_on}", advice.unwrap_or_default());
            Err(failure.hint(hint).left(drive.billed(&failed.left)))
        }
        outcome => {
            drive.report_outcome(&mut reconciler, outcome)?;
            drive.report.note(done);
            asked.map_or(Ending::Exit(0), Ending::Asked).code()
        }
    }
}

/// The failure of a command that a signal stopped, and that goes on if it is given again.
pub(super) fn stop_failure(cloud: &Cloud, same: &str) -> Failure {
    let error = anyhow!("stopped before the end of: {same}");
    Failure::new(Exit::TryAgain, error).hint(goes_on(cloud, same))
}

fn goes_on(cloud: &Cloud, same: &str) -> String {
    format!("the same again goes on: {} {same}", cloud.command)
}
