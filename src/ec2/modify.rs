//! Changes of a volume's size and speed, also while it is in use (EBS user guide, *Modify a volume using Elastic
//! Volumes operations*).

use aws_sdk_ec2::types::VolumeModificationState;

use super::client::unless_throttled;
use super::{Ec2, Error, GibiBytes, Speed};
use crate::ids::VolumeId;

const LIST: &str = "DescribeVolumesModifications";

/// EC2's code for a volume that was never modified.
const NEVER: &str = "InvalidVolumeModification.NotFound";

/// How far a change of a volume has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modified {
    /// The volume is as it was.
    Not,
    /// The volume has its new size; the new speed may take hours.
    Done,
    /// EC2 gave it up, and why.
    Failed(String),
}

impl Ec2 {
    /// `ModifyVolume`: one attempt. What is `None` stays as it is.
    pub async fn modify_volume(
        &self,
        volume: &VolumeId,
        size: Option<GibiBytes>,
        speed: Speed,
    ) -> Result<(), Error> {
        let number = |value: Option<u32>| value.and_then(|value| i32::try_from(value).ok());
        let request = self
            .once
            .modify_volume()
            .volume_id(volume.as_str())
            .set_size(number(size))
            .set_iops(number(speed.iops))
            .set_throughput(number(speed.throughput));
        unless_throttled("ModifyVolume", || request.clone().send()).await?;
        Ok(())
    }

    /// How far this change of a volume has come; [`Modified::Not`] while EC2 lists another one, or none.
    pub async fn volume_modification(
        &self,
        volume: &VolumeId,
        size: Option<GibiBytes>,
        speed: Speed,
    ) -> Result<Modified, Error> {
        let request = self.patient.describe_volumes_modifications();
        let answer = request.volume_ids(volume.as_str()).send().await;
        let answer = match answer.map_err(|error| Error::from_sdk(LIST, &error)) {
            Err(error) if error.code == NEVER => return Ok(Modified::Not),
            answer => answer?,
        };
        let is = |target: Option<i32>, wanted: Option<u32>| {
            wanted.is_none_or(|wanted| target.and_then(|it| u32::try_from(it).ok()) == Some(wanted))
        };
        // The newest, where an EC2 lists all.
        let mut newest = answer.volumes_modifications().iter().rev();
        let this = newest.find(|it| {
            is(it.target_size(), size)
                && is(it.target_iops(), speed.iops)
                && is(it.target_throughput(), speed.throughput)
        });
        let Some(this) = this else {
            return Ok(Modified::Not);
        };
        Ok(match this.modification_state() {
            Some(VolumeModificationState::Optimizing | VolumeModificationState::Completed) => {
                Modified::Done
            }
            Some(VolumeModificationState::Failed) => {
                Modified::Failed(this.status_message().unwrap_or_default().to_owned())
            }
            _ => Modified::Not,
        })
    }
}
