//! Whether forwards still carry bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the end of connections is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The connections of a forward. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic(Arc<Connections>);

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
    pub(super) fn begin(&self) -> Open<'_> {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(&self.0)
    }

    /// Bytes were delivered just now.
    pub(super) fn moved(&self) {
        *self.0.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Waits until each connection has ended, or none has delivered anything for as long as `quiet`.
    pub(super) async fn settled(&self, quiet: Duration) {
        loop {
            let moved = *self.0.moved.lock().unwrap_or_else(PoisonError::into_inner);
            let is_quiet = moved.is_none_or(|at| at.elapsed() >= quiet);
            if is_quiet || self.0.open.load(Ordering::Relaxed) == 0 {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
