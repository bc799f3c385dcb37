//! The end of a scratch drive: saved as any run would save it, then its snapshots are deleted too.
//!
//! Nothing here decides what may be destroyed. Instance and volume end by the same proofs as every
//! other's, and a snapshot is deleted only if it has the tag that no user's drive has.

use std::time::Duration;

use crate::cloud::Cloud;
use crate::config::{Options, Reach};
use crate::drive::Outcome;
use crate::drive::plan::Goal;
use crate::ec2::VolumeState;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::ssh::UserKey;

use super::outcome::run_failure;
use super::request::Request;
use super::state::Session;

/// How long a root disk may outlive its terminated instance: EC2 deletes it once the instance has
/// shut down, which takes a minute or two.
const ROOT_DISK_LIFE: Duration = Duration::from_mins(5);

/// Ends and deletes everything of `drive`. Returns the ids of what is still billed of it.
pub async fn end_scratch(
    drive: DriveName,
    cloud: &Cloud,
    key: UserKey,
    reach: Reach,
) -> Result<Vec<String>, Failure> {
    let options = Options {
        reach,
        scratch: true,
        ..Options::default()
    };
    let mut session =
        Session::begin(Request::of(drive.clone(), options), cloud.clone(), key).await?;
    let (outcome, _) = session.run(Goal::Saved { even_if_used: true }).await;
    // A failed save shows in what is left, too.
    if !matches!(outcome, Outcome::Saved { .. } | Outcome::Unwound { .. })
        && let Err(failure) = session.report_outcome(outcome)
    {
        session.report.print(&failure.text());
    }
    session
        .reconciler
        .delete_scratch()
        .await
        .map_err(run_failure)?;
    let began = cloud.clock.boot();
    loop {
        let left = left(&drive, cloud).await?;
        if left.is_empty() || cloud.clock.boot().since(began) > ROOT_DISK_LIFE {
            return Ok(left);
        }
        tokio::time::sleep(cloud.timing.poll).await;
    }
}

/// The ids of what EC2 lists of `drive`, without what is deleted or being deleted.
async fn left(drive: &DriveName, cloud: &Cloud) -> Result<Vec<String>, Failure> {
    let gone = [VolumeState::Deleting, VolumeState::Deleted];
    let instances = cloud.ec2.instances(drive).await?.into_iter();
    let instances = instances.filter(|it| !it.state.is_over());
    let volumes = cloud.ec2.volumes(drive).await?.into_iter();
    let volumes = volumes.filter(|it| !gone.contains(&it.state));
    let snapshots = cloud.ec2.snapshots(drive).await?.into_iter();
    Ok(instances
        .map(|it| it.id.to_string())
        .chain(volumes.map(|it| it.id.to_string()))
        .chain(snapshots.map(|it| it.id.to_string()))
        .collect())
}
