//! Whether forwards still carry bytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How often the end of connections is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// How many bytes a transfer carries while it may pause at most: less is a page that polls, or a log
/// that grows, and neither has an end.
const LEAST: u64 = 16 << 10;

/// The connections of a forward. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic {
    connections: Arc<Mutex<Vec<Weak<Carried>>>>,
    /// Whether no connection begins any more.
    is_over: Arc<watch::Sender<bool>>,
}

/// The bytes carried by one forwarded connection, in both directions.
#[derive(Debug)]
struct Carried {
    /// When it began. Times count from here, in milliseconds.
    begun: Instant,
    bytes: AtomicU64,
    /// When it last delivered anything.
    moved: AtomicU64,
    has_moved: AtomicBool,
}

/// The guard of a counted connection; dropping it ends the count.
pub(super) struct Open(Arc<Carried>);

impl Open {
    /// Counts bytes that were delivered just now.
    pub(super) fn count(&self, bytes: usize) {
        let carried = &self.0;
        carried.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        carried.moved.store(carried.now(), Ordering::Relaxed);
        carried.has_moved.store(true, Ordering::Relaxed);
    }
}

impl Carried {
    fn now(&self) -> u64 {
        // Far longer than any connection.
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether nothing was delivered for as long as `pause`.
    fn is_quiet(&self, pause: Duration) -> bool {
        let idle = self.now() - self.moved.load(Ordering::Relaxed).min(self.now());
        !self.has_moved.load(Ordering::Relaxed) || u128::from(idle) >= pause.as_millis()
    }
}

/// A connection that is waited for, and what it had carried when that was looked at last.
struct Draining {
    connection: Weak<Carried>,
    before: u64,
    since: Instant,
}

impl Draining {
    fn watch(connection: &Weak<Carried>) -> Option<Self> {
        let before = connection.upgrade()?.bytes.load(Ordering::Relaxed);
        Some(Self {
            connection: connection.clone(),
            before,
            since: Instant::now(),
        })
    }

    /// Whether it is a transfer that goes on: it has not ended, has not paused so long, and has
    /// carried [`LEAST`] in each such time.
    fn goes_on(&mut self, pause: Duration) -> bool {
        let Some(connection) = self.connection.upgrade() else {
            return false;
        };
        if connection.is_quiet(pause) {
            return false;
        }
        if self.since.elapsed() < pause {
            return true;
        }
        let bytes = connection.bytes.load(Ordering::Relaxed);
        let is_transfer = bytes - self.before >= LEAST;
        (self.before, self.since) = (bytes, Instant::now());
        is_transfer
    }
}

impl Traffic {
    pub(super) fn begin(&self) -> Open {
        let carried = Arc::new(Carried {
            begun: Instant::now(),
            bytes: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            has_moved: AtomicBool::new(false),
        });
        let mut connections = self.connections();
        connections.retain(|it| it.strong_count() > 0);
        connections.push(Arc::downgrade(&carried));
        Open(carried)
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Weak<Carried>>> {
        // Nothing in here panics half way.
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no connection may begin any more.
    pub(super) fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    /// Waits until no connection may begin any more.
    pub(super) async fn over(&self) {
        // Fails only where the last of these is gone.
        let _ = self.is_over.subscribe().wait_for(|it| *it).await;
    }

    /// Has every connection refused from now on that is not open, and returns what waits until each of
    /// the open ones has ended, or has paused: it has delivered nothing, or less than a transfer does,
    /// for as long as `pause`.
    pub(super) fn settled(&self, pause: Duration) -> impl Future<Output = ()> + use<> {
        self.is_over.send_replace(true);
        let mut draining: Vec<Draining> = self
            .connections()
            .iter()
            .filter_map(Draining::watch)
            .collect();
        async move {
            loop {
                draining.retain_mut(|it| it.goes_on(pause));
                if draining.is_empty() {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}
