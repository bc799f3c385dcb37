//! A visit to a drive: the drive, and its hosts over SSH.

use tokio::sync::mpsc;

use crate::access::SshHosts;
use crate::access::lease::News;
use crate::config::Reach;
use crate::drive::{Goal, Outcome, Reconciler};
use crate::failure::Failure;
use crate::opener::Drive;
use crate::signals::End;
use crate::ssh::UserKey;

/// Who visits hosts, and by which route.
#[derive(Clone)]
pub struct Visitor {
    /// The user's key.
    pub key: UserKey,
    /// How hosts are reached.
    pub reach: Reach,
}

/// A drive whose hosts are visited.
pub(super) struct Visit {
    pub(super) drive: Drive,
    pub(super) reconciler: Reconciler<SshHosts>,
    /// The announcements of hosts, and the results of renewing their leases.
    pub(super) news: mpsc::UnboundedReceiver<News>,
}

impl Visit {
    /// Prepares a visit to the hosts of `drive`; makes no call. What the visitor saves of a drive is
    /// a scratch drive's if it `is_scratch`.
    pub(super) fn new(drive: Drive, visitor: Visitor, is_scratch: bool) -> Result<Self, Failure> {
        let mut wanted = drive.wanted()?;
        wanted.settings = wanted.settings.scratch(is_scratch);
        let (hosts, news) = drive.hosts(visitor.key, None, visitor.reach);
        let reconciler = drive.reconciler(hosts, wanted, drive.progress());
        Ok(Self {
            drive,
            reconciler,
            news,
        })
    }

    /// Runs towards `goal`. Returns the outcome, and the first signal that asked for the end.
    pub(super) async fn run(&mut self, goal: Goal) -> (Outcome, Option<End>) {
        self.drive.run(&mut self.reconciler, goal).await
    }
}
