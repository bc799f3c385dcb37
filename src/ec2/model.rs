//! EC2's things as xdrive sees them: states closed, tags sorted.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::arch::Arch;
use super::{DISK, KIND, OP};
use crate::ids::{GroupId, InstanceId, SnapshotId, SubnetId, VolumeId, VpcId};

/// Tags of one resource, by key.
pub type Tags = BTreeMap<String, String>;

/// Sizes of volumes and snapshots, in GiB (2^30 bytes), as EC2 counts them.
pub type GibiBytes = u32;

/// An availability zone's name, such as `us-east-1a`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(pub String);

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How an instance is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    /// One-time spot, ended by `terminate`.
    Spot,
    /// By the second, until terminated.
    OnDemand,
}

impl Market {
    /// EC2's word for it, as in its usage classes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

impl fmt::Display for Market {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spot => "spot",
            Self::OnDemand => "on demand",
        })
    }
}

/// EC2's instance states (EC2 user guide, *Instance lifecycle*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstanceState {
    /// Being launched.
    Pending,
    /// Running, by EC2's account; it may still boot.
    Running,
    /// On the way to `Stopped`.
    Stopping,
    /// Off, with its disks kept.
    Stopped,
    /// Being terminated.
    ShuttingDown,
    /// Gone; stays listed for about an hour.
    Terminated,
}

impl InstanceState {
    /// Whether the instance runs or is about to.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Whether it is shutting down or terminated: neither is billed.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// An instance, as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The instance's id.
    pub id: InstanceId,
    /// The instance's state.
    pub state: InstanceState,
    /// The instance's zone: volumes attach only within it.
    pub zone: Zone,
    /// The instance's subnet and its VPC; a terminated one has none.
    pub subnet: Option<(SubnetId, VpcId)>,
    /// The instance type, such as `t3.medium`.
    pub instance_type: String,
    /// The instance's architecture; none if it is one that xdrive does not know.
    pub arch: Option<Arch>,
    /// How it is paid for.
    pub market: Market,
    /// The address for SSH: the public one, else the private one.
    pub address: Option<IpAddr>,
    /// The instance's address within its VPC.
    pub private: Option<IpAddr>,
    /// The instance's IPv6 address, which is the same from everywhere.
    pub ipv6: Option<Ipv6Addr>,
    /// When `RunInstances` accepted it.
    pub launched: Timestamp,
    /// The image it runs.
    pub image: String,
    /// The instance's disks.
    pub mappings: Vec<Mapping>,
    /// The instance's security groups.
    pub groups: Vec<GroupId>,
    /// When a caller of EC2 ended it, to the second, as far as EC2 says so.
    pub ended: Option<Timestamp>,
    /// Whether it has a role, by its instance profile.
    pub has_role: bool,
    /// Whether it has a public IPv4 address, which is billed.
    pub has_public: bool,
    /// The instance's tags.
    pub tags: Tags,
}

/// A disk of an instance, from the instance's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Device name given at attach, such as `/dev/sdf`.
    pub device: String,
    /// The volume behind it.
    pub volume: VolumeId,
    /// Whether terminating the instance deletes the volume.
    pub delete_on_termination: bool,
}

/// EC2's volume states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VolumeState {
    /// Being made.
    Creating,
    /// Ready, attached to nothing.
    Available,
    /// Attached, or on the way in or out.
    InUse,
    /// On its way out.
    Deleting,
    /// Gone.
    Deleted,
    /// Failed: its hardware or its key.
    Error,
}

/// A volume, as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The volume's id.
    pub id: VolumeId,
    /// The volume's state.
    pub state: VolumeState,
    /// The volume's zone.
    pub zone: Zone,
    /// The volume's size.
    pub size: GibiBytes,
    /// When it was made.
    pub created: Timestamp,
    /// The snapshot it was made from; `None` if it was made empty.
    pub snapshot: Option<SnapshotId>,
    /// The attachment, if there is one.
    pub attachment: Option<Attachment>,
    /// The volume's tags.
    pub tags: Tags,
}

/// A volume's attachment, from the volume's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The instance.
    pub instance: InstanceId,
    /// The device name.
    pub device: String,
    /// The attachment's state.
    pub state: AttachmentState,
    /// Since when.
    pub since: Timestamp,
    /// Whether terminating the instance deletes the volume.
    pub delete_on_termination: bool,
}

/// EC2's attachment states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachmentState {
    /// On the way in.
    Attaching,
    /// In.
    Attached,
    /// On the way out.
    Detaching,
    /// Out.
    Detached,
    /// The instance still holds it.
    Busy,
}

/// EC2's snapshot states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotState {
    /// The point in time is fixed; the copy is under way.
    Pending,
    /// Whole.
    Completed,
    /// Failed, for good.
    Error,
}

/// A snapshot, as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The snapshot's id.
    pub id: SnapshotId,
    /// The snapshot's state.
    pub state: SnapshotState,
    /// The volume it was taken of.
    pub volume: Option<VolumeId>,
    /// The size of that volume.
    pub size: GibiBytes,
    /// The size in bytes of all its blocks, those shared with other snapshots included; `None`
    /// until it is completed.
    pub full_size: Option<u64>,
    /// When it was taken (a copy has its own, later one).
    pub started: Timestamp,
    /// Why it is in `Error`, in AWS's words; empty otherwise.
    pub message: String,
    /// The snapshot's tags.
    pub tags: Tags,
}

impl Snapshot {
    /// Whether somebody else made it of a drive's volume, or of its host's root disk, whose tags it has:
    /// AWS Backup copies them (AWS Backup developer guide, *Copy tags onto backups*), and so may a
    /// lifecycle policy (`CopyTags`). What xdrive makes has tags that no volume has.
    #[must_use]
    pub fn is_backup(&self) -> bool {
        let is_root = self.tags.get(DISK).is_some_and(|disk| disk == "root");
        is_root || !(self.tags.contains_key(OP) || self.tags.contains_key(KIND))
    }
}
