//! `rename`: another name for a drive, by the plan.

use anyhow::anyhow;

use super::lookup::Listing;
use super::outcome::run_failure;
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::drive::reconcile::{RunError, is_left};
use crate::drive::tags::{self, Leaving};
use crate::drive::{Goal, Left, Outcome, Stuck};
use crate::ec2::Snapshot;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::ssh::UserKey;

/// Renames the drive of `request`, which must have neither instance nor volume, to `to`. Returns the
/// exit code.
pub(crate) async fn rename(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    to: DriveName,
) -> Result<u8, Failure> {
    if request.drive == to {
        let error = anyhow!("{to} has that name");
        return Err(Failure::new(Exit::Usage, error).hint("the second name is the new one"));
    }
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    session.demand_rest(&facts)?;
    session.demand_free(&facts.snapshots, &to).await?;
    let (drive, command) = (&session.request.drive, &session.cloud.command);
    let same = format!("rename {drive} {to}");
    let done = format!("{drive} is called {to} now: {command} connect {to}");
    session.leave_name(Goal::Renamed(to), &same, &done).await
}

impl Session {
    /// Refuses a name that another drive has already. One for which `snapshots` of this drive are marked
    /// may have some of it, by an earlier run; or another drive, which was made since that.
    async fn demand_free(&mut self, snapshots: &[Snapshot], to: &DriveName) -> Result<(), Failure> {
        let goes_there = Some(Leaving::Renamed(to.clone()));
        let marked = snapshots.iter();
        let marked = marked.filter(|it| Leaving::read(&it.tags) == goes_there);
        // The list may show newer ones that have come there: the oldest has not.
        let oldest = marked.min_by_key(|it| {
            let own = tags::read_snapshot(&it.tags);
            own.ok().map(|own| own.generation)
        });
        if let Some(oldest) = oldest {
            return match self.reconciler.demand_name(to, oldest).await {
                Ok(()) => Ok(()),
                Err(RunError::Stuck(why)) => {
                    let left = Left::default();
                    self.report_outcome(Outcome::Stuck(Stuck { why, left }))
                }
                Err(error) => Err(run_failure(error)),
            };
        }
        let there = Listing::of(&self.cloud.ec2, to).await?;
        let is_free = there.instances.iter().all(|it| it.state.is_over())
            && !there.volumes.iter().any(is_left)
            && there.snapshots.is_empty();
        if is_free {
            return Ok(());
        }
        let error = anyhow!("there is a drive {to} already");
        let hint = format!("{} list {to} shows it", self.cloud.command);
        Err(Failure::new(Exit::Usage, error).hint(hint))
    }
}
