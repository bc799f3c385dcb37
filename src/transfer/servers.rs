//! The SFTP servers of one container, which take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::sftp::Sftp;

/// The servers of one container.
#[derive(Clone)]
pub(crate) struct Servers {
    all: Arc<[Sftp]>,
    next: Arc<AtomicUsize>,
}

impl Servers {
    pub(crate) fn new(all: Vec<Sftp>) -> Self {
        Self {
            all: all.into(),
            next: Arc::default(),
        }
    }

    /// The one whose turn it is.
    pub(crate) fn one(&self) -> &Sftp {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.all[next % self.all.len()]
    }
}
