//! Work that finds more work: all that is found is done, side by side.

use std::future::Future;

use anyhow::anyhow;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Stop;

/// Where jobs find further ones.
pub(super) type Jobs<J> = mpsc::UnboundedSender<J>;

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
