//! The end of a scratch drive, or of a worker: saved as any run would save it, then its snapshots are deleted
//! too.
//!
//! Nothing here decides what may be destroyed. Instance and volume end by the same proofs as every
//! other's, and a snapshot is deleted only if it has a tag that no user's save has.

use std::time::Duration;

use super::visitor::{Visit, Visitor};
use crate::cloud::Cloud;
use crate::drive::{Goal, Outcome};
use crate::ec2::VolumeState;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::opener::{Drive, Opening, Receipt, run_failure};

/// How long a root disk may outlive its terminated instance: EC2 deletes it once the instance has
/// shut down, which takes a minute or two.
const ROOT_DISK_LIFE: Duration = Duration::from_mins(5);

/// A drive of which nothing is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposable {
    /// Made for a test: nor is what is saved of it now.
    Scratch,
    /// A worker. What a user has saved of it stays.
    Worker,
}

/// The end of a drive of which nothing is kept.
pub(crate) struct Disposed {
    /// The ids of what is still billed of it.
    pub(crate) left: Vec<String>,
    /// The cost of the instances and disks that this has ended.
    pub(crate) cost: Option<Receipt>,
}

/// Ends and deletes everything of the drive of this `opening`.
pub(crate) async fn end_scratch(
    opening: Opening,
    kind: Disposable,
    cloud: &Cloud,
    visitor: Visitor,
) -> Result<Disposed, Failure> {
    let drive = opening.place.drive.clone();
    let opened = Drive::begin(opening, cloud.clone()).await?;
    let mut visit = Visit::new(opened, visitor, kind == Disposable::Scratch)?;
    let (outcome, _) = visit.run(Goal::Saved { even_if_used: true }).await;
    // A failed save shows in what is left, too.
    if !matches!(outcome, Outcome::Saved { .. } | Outcome::Unwound { .. })
        && let Err(failure) = visit.drive.report_outcome(&mut visit.reconciler, outcome)
    {
        visit.drive.report.print(&failure.text());
    }
    let deleted = visit.reconciler.delete_scratch().await;
    deleted.map_err(run_failure)?;
    let cost = visit.drive.receipt(&visit.reconciler).await;
    let began = cloud.clock.boot();
    loop {
        let left = left(&drive, cloud).await?;
        if left.is_empty() || cloud.clock.boot().since(began) > ROOT_DISK_LIFE {
            return Ok(Disposed { left, cost });
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
