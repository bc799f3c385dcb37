//! The source of a new volume.

use crate::ids::{Generation, SnapshotId};

/// The source of a new volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Nothing: a new drive.
    Empty,
    /// A snapshot and its generation.
    Snapshot(SnapshotId, Generation),
}
