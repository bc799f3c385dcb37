//! Tags once they are read: of volumes and of snapshots.

use crate::ids::{Generation, SessionId, Uuid};

/// A session, and for whom it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The run of xdrive.
    pub session: SessionId,
    /// The ARN of the owner of what it makes: in tags, and in the name of the security group.
    pub owner: String,
    /// The ARN of its caller: compared with the owners of drives, and named to hosts.
    pub caller: String,
}

impl Identity {
    /// A session of a caller that owns what it makes.
    #[must_use]
    pub fn new(session: SessionId, caller: String) -> Self {
        Self {
            session,
            owner: caller.clone(),
            caller,
        }
    }
}

/// How a snapshot came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnapshotKind {
    /// Taken while the drive was in use: it never allows a deletion.
    Checkpoint,
    /// Taken after the volume's host vanished.
    Crashed,
    /// Taken after the drive was closed.
    Clean,
}

/// A volume's tags, read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeTags {
    /// An instance's root disk.
    Root,
    /// A drive's volume.
    Drive {
        /// The generation it started with.
        base: Generation,
        /// The generation it is at.
        generation: Generation,
        /// Created empty.
        blank: bool,
        /// Known to have been formatted.
        formatted: bool,
        /// The file system's UUID, if that is recorded.
        uuid: Option<Uuid>,
        /// The session that made or last claimed it.
        session: SessionId,
    },
    /// A volume that is thrown away: no state of the drive, whatever is on it.
    Throwaway {
        /// The generation of the snapshot that it was made from, for ever.
        base: Generation,
        /// The file system's UUID, if that is recorded on the snapshot.
        uuid: Option<Uuid>,
        /// The session that made it and throws it away.
        session: SessionId,
    },
}

/// A snapshot's tags, read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SnapshotTags {
    /// The generation of the snapshot's volume.
    pub generation: Generation,
    /// How it came to be.
    pub kind: SnapshotKind,
    /// The attempt that made it.
    pub op: String,
    /// The file system's UUID, if that was recorded on the volume.
    pub uuid: Option<Uuid>,
    /// A checkpoint's number within its generation, from 1; else 0.
    pub number: u32,
}

/// The tag that is missing or cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("its tag {tag} {problem}")]
pub struct Unreadable {
    /// The tag's key.
    pub tag: &'static str,
    /// The fault of the tag's value.
    pub problem: String,
}

impl SnapshotKind {
    /// The value of [`super::KIND`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Crashed => "crashed",
            Self::Checkpoint => "checkpoint",
        }
    }
}
