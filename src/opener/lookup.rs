//! The look-ups at the beginning of a session: the caller, the drive's parts, the subnet.
//!
//! Nothing is made before these calls, so giving up leaves nothing behind.

use anyhow::anyhow;

use crate::cloud::Cloud;
use crate::drive::Timing;
use crate::drive::tags::Identity;
use crate::ec2::{self, Ec2, Instance, Kind, Snapshot, Subnet, Volume};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, SubnetId};
use crate::report::Report;

/// The resources that carry a drive's tag.
pub(crate) struct Listing {
    pub(crate) instances: Vec<Instance>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) snapshots: Vec<Snapshot>,
    /// Snapshots of the drive's volumes that somebody else made.
    pub(crate) backups: Vec<Snapshot>,
}

impl Listing {
    /// Lists instances, then volumes, then snapshots: the order in which data moves. Each is listed
    /// once: a drive that is opened retries.
    pub(crate) async fn read(ec2: &Ec2, drive: &DriveName) -> Result<Self, Failure> {
        let instances = ec2.instances(drive).await?;
        let volumes = ec2.volumes(drive).await?;
        let (snapshots, backups) = ec2.snapshots_and_backups(drive).await?;
        Ok(Self {
            instances,
            volumes,
            snapshots,
            backups,
        })
    }
}

/// Reads the caller's identity, for a new session. A call that EC2 throttles is retried, by the
/// limits of the loop.
pub(super) async fn identity(cloud: &Cloud, report: &Report) -> Result<Identity, Failure> {
    let mut failures = 0;
    loop {
        let failure = match cloud.identity().await {
            Err(failure) if may_retry(&failure, &mut failures, &cloud.timing) => failure,
            answer => return answer,
        };
        report_retry(report, &failure);
        tokio::time::sleep(cloud.timing.pause(failures)).await;
    }
}

/// Whether a failed call is retried: EC2 throttled it, and its `failures` are below the limit.
pub(super) fn may_retry(failure: &Failure, failures: &mut u32, timing: &Timing) -> bool {
    *failures += 1;
    let error = failure.error.downcast_ref::<ec2::Error>();
    let is_throttled = error.is_some_and(|error| error.kind == Kind::Throttled);
    is_throttled && *failures < timing.failures
}

/// Prints that a failed call is retried.
pub(super) fn report_retry(report: &Report, failure: &Failure) {
    let error = &failure.error;
    report.print(&format!(
        "could not look at the drive, trying again: {error}"
    ));
}

/// Looks up the subnet of `--subnet`, whose zone and VPC become the session's.
pub(crate) async fn subnet(id: &SubnetId, cloud: &Cloud) -> Result<Subnet, Failure> {
    cloud.ec2.subnet(id).await.map_err(|error| {
        if error.kind != Kind::NotFound {
            return error.into();
        }
        let region = cloud.ec2.region();
        Failure::new(Exit::Usage, anyhow!("there is no {id} in {region}")).hint(
            "`aws ec2 describe-subnets` shows the subnets of a region; --region names another one",
        )
    })
}
