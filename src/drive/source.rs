//! The source of a new volume, and of a new drive.

use std::fmt;
use std::str::FromStr;

use crate::ec2::Tags;
use crate::ids::{Generation, SnapshotId, VolumeId};

/// The source of a new volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// No source: a new drive.
    Empty,
    /// A snapshot and its generation.
    Snapshot(SnapshotId, Generation),
    /// A snapshot and its generation, for a volume that its session throws away.
    Throwaway(SnapshotId, Generation),
}

/// The original of which a drive is to begin with a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CopySource {
    /// A snapshot.
    Snapshot(SnapshotId),
    /// A volume of this region, of which the copy is a snapshot: one that is no drive's, or of a drive in use.
    Volume(VolumeId),
}

/// The copy that a drive is to begin with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyOrder {
    /// The region of what is copied.
    pub region: String,
    /// The original, which stays as it is.
    pub source: CopySource,
    /// The copy's `xdrive:op`.
    pub op: String,
    /// The copy's tags, but for those that all things of the drive have.
    pub tags: Tags,
}

impl CopySource {
    /// The source in a line for people, who read what it is before the id: `the volume (vol-…)`.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Snapshot(id) => id.after("the"),
            Self::Volume(id) => id.after("the"),
        }
    }
}

impl FromStr for CopySource {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let snapshot = given.parse().map(Self::Snapshot);
        snapshot
            .or_else(|_| given.parse().map(Self::Volume))
            .map_err(|_| {
                format!("{given:?} is neither a snapshot's id (snap-…) nor a volume's (vol-…)")
            })
    }
}

/// The bare id.
impl fmt::Display for CopySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(id) => id.fmt(f),
            Self::Volume(id) => id.fmt(f),
        }
    }
}
