//! A copy as it was ordered: its sources, its destination, its rules.

use std::path::{Path, PathBuf};

/// How a folder is synchronized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sync {
    /// Whether what is only at the destination is deleted there, unless git would ignore it here.
    pub(crate) deletes: bool,
}

/// How files are copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copying {
    /// The copy's verb.
    pub(crate) verb: &'static str,
    /// Whether to copy also files with the same size and time at the destination.
    pub(crate) ignores_times: bool,
    /// Whether it goes on with what changes.
    pub(crate) watches: bool,
}

impl Copying {
    /// The participle of the verb.
    pub(crate) fn done(self) -> &'static str {
        if self.verb == "sync" {
            "sent"
        } else {
            "copied"
        }
    }
}

/// The sources and the destination of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// From this computer.
    Up {
        /// The files and folders here.
        sources: Vec<PathBuf>,
        /// The path in the container.
        to: Vec<u8>,
    },
    /// To this computer.
    Down {
        /// The paths in the container.
        sources: Vec<Vec<u8>>,
        /// The file or folder here.
        to: PathBuf,
    },
    /// The content of a folder here, but for files that git ignores.
    Sync {
        /// The folder.
        folder: PathBuf,
        /// The folder in the container, which is made.
        to: Vec<u8>,
        /// How.
        sync: Sync,
    },
}

impl Order {
    /// The folder here that is synchronized.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Sync { folder, .. } => Some(folder),
            Self::Up { .. } | Self::Down { .. } => None,
        }
    }
}
