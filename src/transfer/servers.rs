//! The SFTP servers of one container, which take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::sftp::{Entry, Listed, Sftp, SftpError};

/// The servers of one container.
#[derive(Clone)]
pub(crate) struct Servers {
    all: Arc<[Sftp]>,
    next: Arc<AtomicUsize>,
    listed: Arc<Listed>,
}

impl Servers {
    pub(crate) fn new(all: Vec<Sftp>) -> Self {
        Self {
            all: all.into(),
            next: Arc::default(),
            listed: Arc::default(),
        }
    }

    /// The one whose turn it is.
    pub(crate) fn one(&self) -> &Sftp {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.all[next % self.all.len()]
    }

    /// All that is in a folder, as far as there is room for what was listed since the beginning.
    pub(crate) async fn list(&self, path: &[u8]) -> Result<Vec<Entry>, SftpError> {
        self.one().list(path, &self.listed).await
    }

    /// Sets the limit on listed entries back: the whole tree is listed again.
    pub(super) fn begin(&self) {
        self.listed.begin();
    }
}

#[cfg(test)]
impl Servers {
    /// With room for so many entries of folders.
    pub(super) fn bounded(all: Vec<Sftp>, most: u64) -> Self {
        Self {
            listed: Arc::new(Listed::bounded(most)),
            ..Self::new(all)
        }
    }
}
