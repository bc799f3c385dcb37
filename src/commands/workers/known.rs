//! The workers that there are, from tags alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::cloud::Cloud;
use crate::drive::reconcile::is_left;
use crate::drive::tags::{self, VolumeTags};
use crate::drive::tend::BY_EC2;
use crate::ec2::{Instance, Ownership, Tags};
use crate::failure::Failure;
use crate::ids::DriveName;

/// A worker of which there is something.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) number: u16,
    pub(super) drive: DriveName,
    /// The instance, if one is up.
    pub(super) host: Option<Instance>,
    /// The instance that was launched last, as long as EC2 lists it, up or not.
    pub(super) last: Option<Instance>,
}

impl Known {
    /// Whether EC2 took its last instance. One that ended by itself, or that a caller ended, was to end; nor is
    /// it known of one that EC2 has forgotten, an hour after its end.
    pub(super) async fn was_taken(&self, cloud: &Cloud) -> Result<bool, Failure> {
        let why = match &self.last {
            Some(last) if self.host.is_none() => cloud.ec2.why_ended(&last.id).await?,
            _ => None,
        };
        Ok(why.is_some_and(|why| why.starts_with(BY_EC2)))
    }
}

/// The workers of `leader`, by number. A drive that is called like one, and has anything that a worker does not
/// have, is its user's.
pub(super) async fn find(cloud: &Cloud, leader: &DriveName) -> Result<Vec<Known>, Failure> {
    let (instances, volumes, snapshots) = cloud.ec2.everything().await?;
    let mut known: BTreeMap<u16, Known> = BTreeMap::new();
    for snapshot in &snapshots {
        if tags::worker_of(&snapshot.tags).as_ref() != Some(leader) {
            continue;
        }
        let drive = tags::drive(&snapshot.tags);
        let numbered = drive.and_then(|drive| Some((numbered(&drive, leader)?, drive)));
        if let Some((number, drive)) = numbered {
            let worker = Known {
                number,
                drive,
                host: None,
                last: None,
            };
            known.insert(number, worker);
        }
    }
    let is_plain_snapshot = |of: &Tags| tags::worker_of(of).as_ref() != Some(leader);
    let is_plain_volume = |of: &Tags| matches!(tags::read_volume(of), Ok(VolumeTags::Drive { .. }));
    let snapshots = snapshots.iter().map(|it| &it.tags);
    let volumes = volumes.iter().filter(|it| is_left(it)).map(|it| &it.tags);
    let live = instances.iter().filter(|it| it.state.is_live());
    let hosts = live.map(|it| &it.tags);
    let plain = (snapshots.filter(|of| is_plain_snapshot(of)))
        .chain(volumes.filter(|of| is_plain_volume(of)))
        .chain(hosts.filter(|of| tags::thrown_away_by(of).is_none()));
    let plain: BTreeSet<DriveName> = plain.filter_map(tags::drive).collect();
    known.retain(|_, worker| !plain.contains(&worker.drive));
    for instance in &instances {
        let drive = tags::drive(&instance.tags);
        let mut workers = known.values_mut();
        let Some(worker) = workers.find(|it| Some(&it.drive) == drive.as_ref()) else {
            continue;
        };
        // One before may be left to EC2, which takes it.
        let former = worker.host.as_ref().map(|host| host.launched);
        if instance.state.is_live() && former.is_none_or(|former| former < instance.launched) {
            worker.host = Some(instance.clone());
        }
        let last = worker.last.as_ref().map(|last| last.launched);
        if last.is_none_or(|last| last < instance.launched) {
            worker.last = Some(instance.clone());
        }
    }
    Ok(known.into_values().collect())
}

/// Whether there is any worker of this caller's.
pub(super) async fn is_any_of(cloud: &Cloud, caller: &str) -> Result<bool, Failure> {
    let (_, _, snapshots) = cloud.ec2.everything().await?;
    let mut tags = snapshots.iter().map(|snapshot| &snapshot.tags);
    Ok(tags.any(|of| {
        tags::worker_of(of).is_some()
            && Ownership::from_tag(tags::owner(of), caller) == Ownership::Own
    }))
}

/// The number of the worker of `leader` that this drive is, by its name; none if it is not called so.
fn numbered(drive: &DriveName, leader: &DriveName) -> Option<u16> {
    let (_, number) = drive.as_str().rsplit_once(".w")?;
    let number: u16 = number.parse().ok()?;
    (leader.worker(number) == *drive).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_called_as_its_leader_with_a_number() {
        let name = |text: &str| text.parse::<DriveName>().unwrap();
        let number = |drive: &str| numbered(&name(drive), &name("train"));
        assert_eq!(number("train.w12"), Some(12));
        for other in [
            "train",
            "other.w1",
            "train.w01",
            "train.w",
            "train.w1.w2",
            "train.w70000",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
        // Whose name had to be cut.
        let long = name(&"a".repeat(64));
        assert_eq!(numbered(&long.worker(3), &long), Some(3));
    }
}
