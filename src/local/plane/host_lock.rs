//! Locks of the whole computer, for resources that all its state directories share.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};

use super::PlaneError;

/// Where Linux keeps locks of the whole computer (Filesystem Hierarchy Standard, section 5.9).
const LOCKS: &str = "/run/lock";

/// A lock of the whole computer, over all state directories.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostLock {
    /// Addresses, routes, interfaces.
    Network,
    /// The list of free loop devices.
    Loops,
    /// The host's table of mounts. A new mount namespace is a copy of the host's until it has moved
    /// into its own root: to unmount meanwhile would leave the copy mounted.
    Mounts,
}

impl HostLock {
    /// Takes it exclusively, until the file is dropped.
    pub(super) fn lock(self) -> Result<File, PlaneError> {
        self.take(FlockOperation::LockExclusive)
    }

    /// Takes it shared, until the file is dropped.
    pub(super) fn share(self) -> Result<File, PlaneError> {
        self.take(FlockOperation::LockShared)
    }

    fn take(self, operation: FlockOperation) -> Result<File, PlaneError> {
        let name = match self {
            Self::Network => "xdrive-local-network",
            Self::Loops => "xdrive-local-loops",
            Self::Mounts => "xdrive-local-mounts",
        };
        let path = Path::new(LOCKS).join(name);
        let take = || -> anyhow::Result<File> {
            fs::create_dir_all(LOCKS)?;
            let file = File::options().create(true).append(true).open(&path)?;
            flock(&file, operation)?;
            Ok(file)
        };
        Ok(take().with_context(|| format!("locking {}", path.display()))?)
    }
}
