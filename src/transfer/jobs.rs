//! Work that finds more work: all that is found is done, side by side, within limits.

use std::future::Future;

use anyhow::anyhow;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};

use super::state::Stop;

/// How many requests for small things go together.
pub(super) const TOGETHER: usize = 64;

/// Where jobs find further ones.
pub(super) type Jobs<J> = mpsc::UnboundedSender<J>;

/// How many small items go together, and how many bytes they have.
const MOST: (usize, u64) = (TOGETHER, 1 << 20);

/// How much is done at once.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) folders: Semaphore,
    pub(super) batches: Semaphore,
    pub(super) large: Semaphore,
}

/// Small items that go together.
#[derive(Debug)]
pub(super) struct Batch<I> {
    items: Vec<I>,
    bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Far away, and on a busy computer, an answer comes late.
            folders: Semaphore::new(64),
            batches: Semaphore::new(32),
            large: Semaphore::new(4),
        }
    }
}

impl<I> Batch<I> {
    pub(super) fn new() -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds an item of so many bytes. Returns the whole batch once it reaches the batch size.
    pub(super) fn add(&mut self, item: I, bytes: u64) -> Option<Vec<I>> {
        self.items.push(item);
        self.bytes = self.bytes.saturating_add(bytes);
        let is_full = self.items.len() >= MOST.0 || self.bytes >= MOST.1;
        if is_full { self.rest() } else { None }
    }

    /// Takes the rest of the batch, if there is any.
    pub(super) fn rest(&mut self) -> Option<Vec<I>> {
        self.bytes = 0;
        (!self.items.is_empty()).then(|| std::mem::take(&mut self.items))
    }
}

/// Runs the `first` jobs, and those that they find, until there are none. The first that stops ends
/// all others.
pub(super) async fn run_all<J, F>(first: Vec<J>, run: impl Fn(J, Jobs<J>) -> F) -> Result<(), Stop>
where
    F: Future<Output = Result<(), Stop>> + Send + 'static,
{
    let (jobs, mut queue) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for job in first {
        running.spawn(run(job, jobs.clone()));
    }
    loop {
        while let Ok(job) = queue.try_recv() {
            running.spawn(run(job, jobs.clone()));
        }
        if running.is_empty() {
            return Ok(());
        }
        tokio::select! {
            Some(job) = queue.recv() => {
                running.spawn(run(job, jobs.clone()));
            }
            Some(ended) = running.join_next() => {
                ended.map_err(|error| Stop::Refused(anyhow!(error)))??;
            }
        }
    }
}

/// Does `work`, which blocks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stop> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Stop::Refused(anyhow!(error)))
}
