//! The source of a new volume, and of a new drive.

use crate::ec2::Tags;
use crate::ids::{Generation, SnapshotId};

/// The source of a new volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Nothing: a new drive.
    Empty,
    /// A snapshot and its generation.
    Snapshot(SnapshotId, Generation),
}

/// The copy that a drive is to begin with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyOrder {
    /// The region of the snapshot that is copied.
    pub region: String,
    /// That snapshot.
    pub source: SnapshotId,
    /// The copy's `xdrive:op`.
    pub op: String,
    /// Its tags, but for those that all things of the drive have.
    pub tags: Tags,
}
