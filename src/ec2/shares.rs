//! Shares: file systems of Elastic File System, and the mount targets at which the zones of a VPC have them
//! (EFS API reference).
//!
//! Another service than EC2, with rights of its own (`elasticfilesystem:…`). A file system is made for a
//! token, of which an account has one in a region: two callers that make one at once make the same. So every
//! call here may be repeated, those that delete as well: they name what no other call makes again.

use std::fmt;
use std::net::Ipv4Addr;

use aws_sdk_efs::operation::describe_file_systems::builders::DescribeFileSystemsFluentBuilder;
use aws_sdk_efs::primitives::DateTime;
use aws_sdk_efs::types::{
    FileSystemDescription, LifeCycleState, LifecyclePolicy, MountTargetDescription,
    PerformanceMode, Tag, ThroughputMode, TransitionToIaRules,
};
use jiff::Timestamp;

use super::error::unless;
use super::pages::read_pages;
use super::{Ec2, Error, SHARE, Tags, Zone, convert};
use crate::ids::{FileSystemId, GroupId, MountTargetId, SubnetId, VpcId};

/// The most file systems a page, and mount targets (EFS API reference, `DescribeFileSystems`).
const PAGE: i32 = 100;

/// The codes for what there is none of (EFS API reference, *Errors* of each call).
const NO_FILE_SYSTEM: &str = "FileSystemNotFound";
const NO_TARGET: &str = "MountTargetNotFound";

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// The file system's id.
    pub id: FileSystemId,
    /// The token that it was made for.
    pub token: String,
    /// The state.
    pub state: ShareState,
    /// The number of its mount targets, of any VPC.
    pub targets: u32,
    /// The bytes that are paid for, as of their last metering, which may be hours old.
    pub size: u64,
    /// The bytes among them in the storage class for what is rarely read.
    pub rarely_read: u64,
    /// When it was made.
    pub created: Timestamp,
    /// The throughput mode, such as `bursting`.
    pub throughput: String,
    /// The only zone that it is kept in; none if it is kept in all of the region.
    pub zone: Option<Zone>,
    /// The tags.
    pub tags: Tags,
}

/// A mount target: the address of a file system in one zone of a VPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountTarget {
    /// The mount target's id.
    pub id: MountTargetId,
    /// The subnet.
    pub subnet: SubnetId,
    /// The subnet's VPC: a file system has mount targets in one alone.
    pub vpc: Option<VpcId>,
    /// The subnet's zone, which has one mount target at most.
    pub zone: Option<Zone>,
    /// The state.
    pub state: ShareState,
    /// The address; none if it has none yet, or only one of IPv6.
    pub address: Option<Ipv4Addr>,
}

/// The state of a file system or mount target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareState {
    /// Being made.
    Creating,
    /// Usable.
    Available,
    /// Usable, while something about it changes.
    Updating,
    /// Being deleted.
    Deleting,
    /// Gone.
    Deleted,
    /// Failed, for good.
    Error,
}

impl ShareState {
    /// Whether it is there, or will be.
    #[must_use]
    pub fn is_left(self) -> bool {
        !matches!(self, Self::Deleting | Self::Deleted)
    }

    /// The state as AWS writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Available => "available",
            Self::Updating => "updating",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
            Self::Error => "error",
        }
    }

    fn from_sdk(state: &LifeCycleState) -> Result<Self, String> {
        Ok(match state {
            LifeCycleState::Creating => Self::Creating,
            LifeCycleState::Available => Self::Available,
            LifeCycleState::Updating => Self::Updating,
            LifeCycleState::Deleting => Self::Deleting,
            LifeCycleState::Deleted => Self::Deleted,
            LifeCycleState::Error => Self::Error,
            other => return Err(format!("unknown state {other:?}")),
        })
    }
}

impl fmt::Display for ShareState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Ec2 {
    /// Makes the file system of a token, encrypted, with these tags; `None` if the token has one, whose tags are
    /// others. It is kept in all zones of the region, and has the throughput that comes with what it holds
    /// (bursting). [`super::Kind::Ambiguous`] and [`super::Kind::Server`] may be asked for again.
    pub async fn create_file_system(
        &self,
        token: &str,
        tags: &Tags,
    ) -> Result<Option<FileSystemId>, Error> {
        const CALL: &str = "CreateFileSystem";
        let tags = tags.iter().map(|(key, value)| {
            let tag = Tag::builder().key(key).value(value).build();
            tag.map_err(|error| Error::unreadable(CALL, error))
        });
        let tags: Vec<Tag> = tags.collect::<Result<_, _>>()?;
        let answer = self
            .efs
            .create_file_system()
            .creation_token(token)
            .encrypted(true)
            .performance_mode(PerformanceMode::GeneralPurpose)
            .throughput_mode(ThroughputMode::Bursting)
            .set_tags(Some(tags))
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error));
        let Some(made) = unless(answer, &["FileSystemAlreadyExists"])? else {
            return Ok(None);
        };
        convert::id("the file system's id", Some(made.file_system_id()))
            .map(Some)
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// Has files that nobody reads for 30 days kept in the storage class that costs a small part of the other,
    /// and come back at their first access.
    pub async fn keep_rarely_read_cheaply(&self, id: &FileSystemId) -> Result<(), Error> {
        let after = LifecyclePolicy::builder().transition_to_ia(TransitionToIaRules::After30Days);
        let back =
            LifecyclePolicy::builder().transition_to_primary_storage_class("AFTER_1_ACCESS".into());
        self.efs
            .put_lifecycle_configuration()
            .file_system_id(id.as_str())
            .lifecycle_policies(after.build())
            .lifecycle_policies(back.build())
            .send()
            .await
            .map(drop)
            .map_err(|error| Error::from_sdk("PutLifecycleConfiguration", &error))
    }

    /// The file systems of the account in this region that carry a share's tag.
    pub async fn file_systems(&self) -> Result<Vec<FileSystem>, Error> {
        const CALL: &str = "DescribeFileSystems";
        let pages = self.efs.describe_file_systems().max_items(PAGE);
        let pages = pages.into_paginator().send();
        read_pages(CALL, pages, |page| {
            // Whatever else there is may be in a state that is not known here.
            let tagged =
                |it: &&FileSystemDescription| it.tags().iter().any(|tag| tag.key() == SHARE);
            let shares = page.file_systems().iter().filter(tagged);
            shares.map(file_system).collect()
        })
        .await
    }

    /// The file system of a token; `None` if there is none (any more, or yet).
    pub async fn file_system_of(&self, token: &str) -> Result<Option<FileSystem>, Error> {
        first(self.efs.describe_file_systems().creation_token(token)).await
    }

    /// The file system of this id; `None` if there is none (any more, or yet).
    pub async fn file_system(&self, id: &FileSystemId) -> Result<Option<FileSystem>, Error> {
        first(self.efs.describe_file_systems().file_system_id(id.as_str())).await
    }

    /// Deletes a file system, with all that it holds; success if it is gone. [`super::Kind::State`] while it
    /// has a mount target.
    pub async fn delete_file_system(&self, id: &FileSystemId) -> Result<(), Error> {
        let request = self.efs.delete_file_system().file_system_id(id.as_str());
        let answer = request.send().await;
        let answer = answer.map_err(|error| Error::from_sdk("DeleteFileSystem", &error));
        unless(answer, &[NO_FILE_SYSTEM]).map(drop)
    }

    /// The mount targets of a file system; none if it is gone.
    pub async fn mount_targets(&self, of: &FileSystemId) -> Result<Vec<MountTarget>, Error> {
        const CALL: &str = "DescribeMountTargets";
        let pages = self.efs.describe_mount_targets().max_items(PAGE);
        let pages = pages.file_system_id(of.as_str()).into_paginator().send();
        let read = read_pages(CALL, pages, |page| {
            page.mount_targets().iter().map(mount_target).collect()
        });
        Ok(unless(read.await, &[NO_FILE_SYSTEM])?.unwrap_or_default())
    }

    /// Makes a mount target in a subnet, which the group's rules guard; `None` if the file system has one in the
    /// subnet's zone, or in another VPC. Besides the right for it the caller needs those for its network interface in EC2.
    pub async fn create_mount_target(
        &self,
        of: &FileSystemId,
        subnet: &SubnetId,
        group: &GroupId,
    ) -> Result<Option<MountTargetId>, Error> {
        const CALL: &str = "CreateMountTarget";
        let answer = self
            .efs
            .create_mount_target()
            .file_system_id(of.as_str())
            .subnet_id(subnet.as_str())
            .security_groups(group.as_str())
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error));
        let Some(made) = unless(answer, &["MountTargetConflict"])? else {
            return Ok(None);
        };
        convert::id("the mount target's id", Some(made.mount_target_id()))
            .map(Some)
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// The groups whose rules guard a mount target; none if it is gone.
    pub async fn mount_target_groups(&self, of: &MountTargetId) -> Result<Vec<GroupId>, Error> {
        const CALL: &str = "DescribeMountTargetSecurityGroups";
        let request = self.efs.describe_mount_target_security_groups();
        let answer = request.mount_target_id(of.as_str()).send().await;
        let answer = answer.map_err(|error| Error::from_sdk(CALL, &error));
        let Some(answer) = unless(answer, &[NO_TARGET])? else {
            return Ok(Vec::new());
        };
        let groups = answer.security_groups().iter();
        groups
            .map(|id| convert::id("a mount target's group", Some(id)))
            .collect::<Result<_, _>>()
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// Deletes a mount target: who has the file system mounted there hangs. Success if it is gone.
    pub async fn delete_mount_target(&self, id: &MountTargetId) -> Result<(), Error> {
        let request = self.efs.delete_mount_target().mount_target_id(id.as_str());
        let answer = request.send().await;
        let answer = answer.map_err(|error| Error::from_sdk("DeleteMountTarget", &error));
        unless(answer, &[NO_TARGET]).map(drop)
    }
}

/// The file system that is asked for; `None` if there is none (any more, or yet).
async fn first(asked: DescribeFileSystemsFluentBuilder) -> Result<Option<FileSystem>, Error> {
    const CALL: &str = "DescribeFileSystems";
    let answer = asked.send().await;
    let answer = answer.map_err(|error| Error::from_sdk(CALL, &error));
    let Some(answer) = unless(answer, &[NO_FILE_SYSTEM])? else {
        return Ok(None);
    };
    let found = answer.file_systems().first().map(file_system).transpose();
    found.map_err(|doubt| Error::unreadable(CALL, doubt))
}

fn file_system(answer: &FileSystemDescription) -> Result<FileSystem, String> {
    let id: FileSystemId = convert::id("a file system's id", Some(answer.file_system_id()))?;
    let about = |problem: String| format!("{id}: {problem}");
    let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
    let size = answer.size_in_bytes();
    let tags = answer.tags().iter();
    Ok(FileSystem {
        token: answer.creation_token().to_owned(),
        state: ShareState::from_sdk(answer.life_cycle_state()).map_err(about)?,
        targets: u32::try_from(answer.number_of_mount_targets()).unwrap_or_default(),
        size: size.map_or(0, |size| bytes(size.value())),
        rarely_read: size
            .and_then(aws_sdk_efs::types::FileSystemSize::value_in_ia)
            .map_or(0, bytes),
        created: time(answer.creation_time()).map_err(about)?,
        throughput: answer
            .throughput_mode()
            .map_or("bursting", ThroughputMode::as_str)
            .to_owned(),
        zone: answer
            .availability_zone_name()
            .map(|zone| Zone(zone.to_owned())),
        tags: tags
            .map(|tag| (tag.key().to_owned(), tag.value().to_owned()))
            .collect(),
        id,
    })
}

fn time(time: &DateTime) -> Result<Timestamp, String> {
    Timestamp::new(time.secs(), 0).map_err(|error| error.to_string())
}

fn mount_target(answer: &MountTargetDescription) -> Result<MountTarget, String> {
    let id: MountTargetId = convert::id("a mount target's id", Some(answer.mount_target_id()))?;
    let address = answer.ip_address().filter(|address| !address.is_empty());
    Ok(MountTarget {
        subnet: convert::id("a mount target's subnet", Some(answer.subnet_id()))?,
        vpc: answer
            .vpc_id()
            .map(|vpc| convert::id("a mount target's VPC", Some(vpc)))
            .transpose()?,
        zone: answer
            .availability_zone_name()
            .map(|zone| Zone(zone.to_owned())),
        state: ShareState::from_sdk(answer.life_cycle_state())
            .map_err(|problem| format!("{id}: {problem}"))?,
        address: address
            .map(str::parse)
            .transpose()
            .map_err(|error| format!("{id}'s address: {error}"))?,
        id,
    })
}
