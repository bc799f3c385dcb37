//! The calls that only read: all pages of each, with the SDK's own retries.
//!
//! Lists may be stale, tag filters more than ids (EC2 user guide, *Eventual consistency in the
//! Amazon EC2 API*). Nothing here waits for that: it returns EC2's answer.

use aws_sdk_ec2::operation::describe_snapshots::DescribeSnapshotsOutput;
use aws_sdk_ec2::types::{Filter, Reservation};

use super::pages::{PAGE, read_pages};
use super::{DRIVE, Ec2, Error, Instance, Kind, Snapshot, Tags, Volume, convert};
use crate::ids::{DriveName, InstanceId, SnapshotId, VolumeId};

/// How a snapshot is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all.
    None,
    /// With the key of this ARN, if EC2 names it.
    By(Option<String>),
}

impl Ec2 {
    /// All instances tagged with this drive, terminated ones included; all pages.
    pub async fn instances(&self, drive: &DriveName) -> Result<Vec<Instance>, Error> {
        self.instances_where(vec![of_drive(drive)]).await
    }

    /// All volumes tagged with this drive, root disks included.
    pub async fn volumes(&self, drive: &DriveName) -> Result<Vec<Volume>, Error> {
        self.volumes_where(of_drive(drive)).await
    }

    /// All snapshots of this account that xdrive made of this drive, by its tag.
    pub async fn snapshots(&self, drive: &DriveName) -> Result<Vec<Snapshot>, Error> {
        Ok(self.snapshots_and_backups(drive).await?.0)
    }

    /// All snapshots of [`Self::snapshots`], and the backups that somebody else made of the drive's volumes.
    pub async fn snapshots_and_backups(
        &self,
        drive: &DriveName,
    ) -> Result<(Vec<Snapshot>, Vec<Snapshot>), Error> {
        let all = self.snapshots_where(of_drive(drive)).await?.into_iter();
        Ok(all.partition(|it| !it.is_backup()))
    }

    /// Lists all resources that carry any `xdrive:drive` tag, but for others' backups. Instances
    /// first, then volumes, then snapshots: data moves in this order, so only this order misses
    /// none.
    pub async fn everything(&self) -> Result<(Vec<Instance>, Vec<Volume>, Vec<Snapshot>), Error> {
        Ok(self.everything_and_backups().await?.0)
    }

    /// All of [`Self::everything`], and the backups that somebody else made of drives' volumes.
    pub async fn everything_and_backups(
        &self,
    ) -> Result<((Vec<Instance>, Vec<Volume>, Vec<Snapshot>), Vec<Snapshot>), Error> {
        let instances = self.instances_where(vec![of_any_drive()]).await?;
        let volumes = self.volumes_where(of_any_drive()).await?;
        let all = self.snapshots_where(of_any_drive()).await?.into_iter();
        let (snapshots, backups) = all.partition(|it| !it.is_backup());
        Ok(((instances, volumes, snapshots), backups))
    }

    /// The volumes and snapshots whose `Name` is this and that are no drive's.
    pub async fn unmarked(&self, name: &DriveName) -> Result<(Vec<Volume>, Vec<Snapshot>), Error> {
        let named = || {
            let filter = Filter::builder().name("tag:Name");
            filter.values(name.as_str()).build()
        };
        let (volumes, snapshots) =
            tokio::try_join!(self.volumes_where(named()), self.snapshots_where(named()))?;
        let is_unmarked = |tags: &Tags| !tags.contains_key(DRIVE);
        Ok((
            volumes
                .into_iter()
                .filter(|it| is_unmarked(&it.tags))
                .collect(),
            snapshots
                .into_iter()
                .filter(|it| is_unmarked(&it.tags))
                .collect(),
        ))
    }

    /// The instances that match all `filters`, of any owner.
    pub(super) async fn instances_where(
        &self,
        filters: Vec<Filter>,
    ) -> Result<Vec<Instance>, Error> {
        const CALL: &str = "DescribeInstances";
        let pages = self
            .patient
            .describe_instances()
            .set_filters(Some(filters))
            .into_paginator()
            .page_size(PAGE)
            .send();
        read_pages(CALL, pages, |page| {
            let answers = page.reservations().iter().flat_map(Reservation::instances);
            answers.map(convert::instance).collect()
        })
        .await
    }

    async fn volumes_where(&self, filter: Filter) -> Result<Vec<Volume>, Error> {
        const CALL: &str = "DescribeVolumes";
        let pages = self
            .patient
            .describe_volumes()
            .filters(filter)
            .into_paginator()
            .page_size(PAGE)
            .send();
        read_pages(CALL, pages, |page| {
            page.volumes().iter().map(convert::volume).collect()
        })
        .await
    }

    /// Snapshots by tag *and* owner: without the owner EC2 searches every public snapshot.
    async fn snapshots_where(&self, filter: Filter) -> Result<Vec<Snapshot>, Error> {
        const CALL: &str = "DescribeSnapshots";
        let pages = self
            .patient
            .describe_snapshots()
            .owner_ids("self")
            .filters(filter)
            .into_paginator()
            .page_size(PAGE)
            .send();
        read_pages(CALL, pages, |page| {
            page.snapshots().iter().map(convert::snapshot).collect()
        })
        .await
    }

    /// Reads an instance by id; `None` if EC2 does not know it (yet).
    pub async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, Error> {
        const CALL: &str = "DescribeInstances";
        let answer = unless_not_found(
            self.patient
                .describe_instances()
                .instance_ids(id.as_str())
                .send()
                .await
                .map_err(|error| Error::from_sdk(CALL, &error)),
        )?;
        answer
            .as_ref()
            .and_then(|answer| answer.reservations().first()?.instances().first())
            .map(|found| convert::instance(found).map_err(|d| Error::unreadable(CALL, d)))
            .transpose()
    }

    /// Reads a volume by id; `None` if EC2 does not know it (yet, or any more).
    pub async fn volume(&self, id: &VolumeId) -> Result<Option<Volume>, Error> {
        const CALL: &str = "DescribeVolumes";
        let answer = unless_not_found(
            self.patient
                .describe_volumes()
                .volume_ids(id.as_str())
                .send()
                .await
                .map_err(|error| Error::from_sdk(CALL, &error)),
        )?;
        answer
            .as_ref()
            .and_then(|answer| answer.volumes().first())
            .map(|found| convert::volume(found).map_err(|d| Error::unreadable(CALL, d)))
            .transpose()
    }

    /// Reads a snapshot by id; `None` if EC2 does not know it (yet, or any more).
    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, Error> {
        const CALL: &str = "DescribeSnapshots";
        let answer = unless_not_found(
            self.patient
                .describe_snapshots()
                .snapshot_ids(id.as_str())
                .send()
                .await
                .map_err(|error| Error::from_sdk(CALL, &error)),
        )?;
        answer
            .as_ref()
            .and_then(|answer| answer.snapshots().first())
            .map(|found| convert::snapshot(found).map_err(|d| Error::unreadable(CALL, d)))
            .transpose()
    }

    /// Whether a snapshot is encrypted, and with which key; none if it is not there.
    pub async fn encryption(&self, id: &SnapshotId) -> Result<Option<Encryption>, Error> {
        let answer = unless_not_found(
            self.patient
                .describe_snapshots()
                .snapshot_ids(id.as_str())
                .send()
                .await
                .map_err(|error| Error::from_sdk("DescribeSnapshots", &error)),
        )?;
        let found = answer
            .as_ref()
            .and_then(|answer| answer.snapshots().first());
        Ok(found.map(|found| match found.encrypted() {
            Some(true) => Encryption::By(found.kms_key_id().map(str::to_owned)),
            _ => Encryption::None,
        }))
    }

    /// Snapshots by their ids, in one call; none if EC2 does not know one of them (yet, or any
    /// more).
    pub async fn snapshots_by_id(&self, ids: &[SnapshotId]) -> Result<Vec<Snapshot>, Error> {
        const CALL: &str = "DescribeSnapshots";
        // Without an id EC2 returns all snapshots.
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.iter().map(ToString::to_string).collect();
        let answer = unless_not_found(
            self.patient
                .describe_snapshots()
                .set_snapshot_ids(Some(ids))
                .send()
                .await
                .map_err(|error| Error::from_sdk(CALL, &error)),
        )?;
        answer
            .iter()
            .flat_map(DescribeSnapshotsOutput::snapshots)
            .map(|found| convert::snapshot(found).map_err(|d| Error::unreadable(CALL, d)))
            .collect()
    }

    /// The name of an image's (`ami-…`) root device (`DescribeImages`); `None` if the answer has
    /// none.
    pub async fn root_device(&self, image: &str) -> Result<Option<String>, Error> {
        let answer = self
            .patient
            .describe_images()
            .image_ids(image)
            .send()
            .await
            .map_err(|error| Error::from_sdk("DescribeImages", &error))?;
        let described = answer.images().first();
        Ok(described
            .and_then(|image| image.root_device_name())
            .map(str::to_owned))
    }

    /// The newest console output (`GetConsoleOutput`), decoded.
    pub async fn console(&self, instance: &InstanceId) -> Result<String, Error> {
        const CALL: &str = "GetConsoleOutput";
        let look = |latest| {
            self.patient
                .get_console_output()
                .instance_id(instance.as_str())
                .set_latest(latest)
                .send()
        };
        let mut answer = look(Some(true))
            .await
            .map_err(|e| Error::from_sdk(CALL, &e));
        // Instances that are not on Nitro have only what the last boot or stop left.
        if matches!(&answer, Err(error) if error.code.starts_with("Unsupported")) {
            answer = look(None).await.map_err(|e| Error::from_sdk(CALL, &e));
        }
        let output = answer?.output.unwrap_or_default();
        let bytes = aws_smithy_types::base64::decode(output)
            .map_err(|error| Error::unreadable(CALL, error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Why an instance shut down or was terminated: EC2's `StateReason`, such as
    /// `Client.InternalError: Client error on launch` (EC2 user guide, *Troubleshoot Amazon EC2
    /// instance termination issues*), and what its spot request says of a launch that failed. `None`
    /// if there is neither, or EC2 does not list the instance any more.
    pub async fn why_ended(&self, instance: &InstanceId) -> Result<Option<String>, Error> {
        let answer = self
            .patient
            .describe_instances()
            .instance_ids(instance.as_str())
            .send()
            .await
            .map_err(|error| Error::from_sdk("DescribeInstances", &error))?;
        let mut instances = answer
            .reservations()
            .iter()
            .flat_map(Reservation::instances);
        let seen = instances.next();
        let is_spot = seen
            .and_then(|seen| seen.instance_lifecycle())
            .is_some_and(|lifecycle| lifecycle.as_str() == "spot");
        let request = if is_spot {
            Box::pin(self.failed_request(instance)).await
        } else {
            None
        };
        let reason = seen.and_then(|seen| seen.state_reason());
        let reason = reason.and_then(|reason| {
            let code = reason.code().unwrap_or_default();
            let words = reason.message().unwrap_or_default();
            // Most messages begin with their code.
            match (code, words) {
                ("", "") => None,
                (code, "") => Some(code.to_owned()),
                (code, words) if words.starts_with(code) => Some(words.to_owned()),
                (code, words) => Some(format!("{code}: {words}")),
            }
        });
        Ok(match (reason, request) {
            (Some(reason), Some(request)) => Some(format!("{reason}: {request}")),
            (reason, request) => reason.or(request),
        })
    }
}

fn of_drive(drive: &DriveName) -> Filter {
    Filter::builder()
        .name(format!("tag:{DRIVE}"))
        .values(drive.as_str())
        .build()
}

fn of_any_drive() -> Filter {
    Filter::builder().name("tag-key").values(DRIVE).build()
}

/// Turns "not found" by id into `None`.
pub(super) fn unless_not_found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
