//! `rename`: another name for a drive, by the plan.

use anyhow::anyhow;

use super::leaving::{demand_rest, leave_name};
use super::no_hosts::NoHosts;
use crate::drive::reconcile::{RunError, is_left};
use crate::drive::tags::{self, Leaving};
use crate::drive::{Goal, Left, Outcome, Stuck};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::opener::{Drive, Listing, run_failure};

/// Renames the drive, which must have neither instance nor volume, to `to`. Returns the exit code.
pub(crate) async fn rename(mut drive: Drive, to: DriveName) -> Result<u8, Failure> {
    demand_rest(&drive)?;
    demand_free(&drive, &to).await?;
    let same = format!("rename {} {to}", drive.name);
    let done = format!(
        "{} is called {to} now: {} connect {to}",
        drive.name, drive.cloud.command
    );
    leave_name(&mut drive, Goal::Renamed(to), &same, &done).await
}

/// Refuses a name that another drive has already. One for which snapshots of this drive are marked may
/// have some of it, by an earlier run; or another drive, which was made since that.
async fn demand_free(drive: &Drive, to: &DriveName) -> Result<(), Failure> {
    let goes_there = Some(Leaving::Renamed(to.clone()));
    let marked = drive.facts.snapshots.iter();
    let marked = marked.filter(|it| Leaving::read(&it.tags) == goes_there);
    // The list may show newer ones that have come there: the oldest has not.
    let oldest = marked.min_by_key(|it| {
        let own = tags::read_snapshot(&it.tags);
        own.ok().map(|own| own.generation)
    });
    if let Some(oldest) = oldest {
        let mut reconciler = drive.reconciler(NoHosts, drive.wanted()?, drive.progress());
        return match reconciler.demand_name(to, oldest).await {
            Ok(()) => Ok(()),
            Err(RunError::Stuck(why)) => {
                let left = Left::default();
                drive.report_outcome(&mut reconciler, Outcome::Stuck(Stuck { why, left }))
            }
            Err(error) => Err(run_failure(error)),
        };
    }
    let there = Listing::read(&drive.cloud.ec2, to).await?;
    let is_free = there.instances.iter().all(|it| it.state.is_over())
        && !there.volumes.iter().any(is_left)
        && there.snapshots.is_empty();
    if is_free {
        return Ok(());
    }
    let error = anyhow!("there is a drive {to} already");
    let hint = format!("{} list {to} shows it", drive.cloud.command);
    Err(Failure::new(Exit::Usage, error).hint(hint))
}
