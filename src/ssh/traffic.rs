//! Whether forwards still carry bytes, and what nobody has read of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Ssh;
use super::unread::{Unread, UnreadQueue};

/// How often the end of connections is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The connections of a forward. Clones are the same ones.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    connections: Arc<Connections>,
    unread: Unread,
}

#[derive(Debug, Default)]
struct Connections {
    open: AtomicUsize,
    /// When the last bytes were delivered.
    moved: Mutex<Option<Instant>>,
}

/// One of them; it ends when this is dropped.
pub(super) struct Open<'a>(&'a Connections);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Traffic {
    /// That of a forward beside `ssh`: what is unread counts with that of all others beside it.
    pub(super) fn beside(ssh: &Ssh) -> Self {
        Self {
            connections: Arc::default(),
            unread: ssh.unread(),
        }
    }

    /// What a connection will have left unread.
    pub(super) fn unread(&self) -> UnreadQueue {
        self.unread.queue()
    }

    pub(super) fn begin(&self) -> Open<'_> {
        self.connections.open.fetch_add(1, Ordering::Relaxed);
        Open(&self.connections)
    }

    /// Bytes were delivered just now.
    pub(super) fn moved(&self) {
        *self
            .connections
            .moved
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Waits until each connection has ended, or none has delivered anything for as long as `quiet`.
    pub(super) async fn settled(&self, quiet: Duration) {
        loop {
            let moved = *self
                .connections
                .moved
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let is_quiet = moved.is_none_or(|at| at.elapsed() >= quiet);
            if is_quiet || self.connections.open.load(Ordering::Relaxed) == 0 {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
