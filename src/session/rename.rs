//! `rename`: another name for a drive, by the plan.

use anyhow::anyhow;

use super::lookup::Listing;
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::drive::Goal;
use crate::drive::tags::Leaving;
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
    /// Refuses a name that a drive has already, unless an earlier run has begun to give it to this one,
    /// whose `snapshots` are marked for it.
    async fn demand_free(&self, snapshots: &[Snapshot], to: &DriveName) -> Result<(), Failure> {
        let goes_there = Some(Leaving::Renamed(to.clone()));
        if snapshots
            .iter()
            .any(|it| Leaving::read(&it.tags) == goes_there)
        {
            return Ok(());
        }
        let there = Listing::of(&self.cloud.ec2, to).await?;
        let is_free = there.instances.iter().all(|it| it.state.is_over())
            && there.volumes.is_empty()
            && there.snapshots.is_empty();
        if is_free {
            return Ok(());
        }
        let error = anyhow!("there is a drive {to} already");
        let hint = format!("{} list {to} shows it", self.cloud.command);
        Err(Failure::new(Exit::Usage, error).hint(hint))
    }
}
