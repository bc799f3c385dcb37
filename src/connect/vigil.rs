//! What goes on beside the shell or the command: the host's announcements, the lease, and what
//! follows from them for the session.
//!
//! Runs until it is told to stop, or until something ends the middle of the session. It stops
//! between two calls, never in the middle of one that changes the cloud.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::drive::Reconciler;
use crate::host::scripts::HostEvent;
use crate::report::Report;

use super::Ending;
use super::hosts::SshHosts;
use super::lease::News;

/// The drive's own side, shared by what looks after the shell and what goes on beside it.
pub(super) type Shared<'a> = Mutex<&'a mut Reconciler<SshHosts>>;

/// What goes on beside a session.
pub(super) struct Vigil<'a> {
    pub(super) news: &'a mut UnboundedReceiver<News>,
    pub(super) report: &'a Report,
    pub(super) drive: &'a Shared<'a>,
    /// How often a checkpoint is taken, if it is.
    pub(super) checkpoint: Option<Duration>,
}

impl Vigil<'_> {
    /// Keeps watch until `stop` comes; an ending, if something ended the session meanwhile.
    pub(super) async fn keep(self, mut stop: oneshot::Receiver<()>) -> Option<Ending> {
        let Self {
            news,
            report,
            drive,
            checkpoint,
        } = self;
        let mut taking: Option<Taking> = None;
        let every = checkpoint.unwrap_or(Duration::MAX);
        let mut last = Instant::now();
        let ending = loop {
            let is_due = async || match last.checked_add(every) {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            };
            tokio::select! {
                biased;
                Some(news) = news.recv() => {
                    if let Some(ending) = hear(news, report) {
                        break Some(ending);
                    }
                }
                // The other side stops it, also by going away.
                _ = &mut stop => break None,
                () = finished(&mut taking) => {
                    taking = None;
                    last = Instant::now();
                }
                () = is_due(), if taking.is_none() => {
                    taking = Some(Box::pin(take_checkpoint(drive, report)));
                }
            }
        };
        // What was asked of the cloud is always heard to its end.
        if let Some(taking) = taking {
            taking.await;
        }
        ending
    }
}

/// A checkpoint under way.
type Taking<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

async fn finished(taking: &mut Option<Taking<'_>>) {
    match taking {
        Some(taking) => taking.await,
        None => pending().await,
    }
}

/// The reconciler tells what came of it; a failure is of this checkpoint alone.
async fn take_checkpoint(drive: &Shared<'_>, report: &Report) {
    if let Err(error) = drive.lock().await.checkpoint().await {
        report.say(&format!("no checkpoint: {error}"));
    }
}

/// Says what is new; an ending if it is one.
fn hear(news: News, report: &Report) -> Option<Ending> {
    match news {
        News::Host(HostEvent::Closing(reason)) => return Some(Ending::Closed(reason)),
        News::Host(HostEvent::Rebalance { .. }) => report.say(
            "AWS says that this instance is at an elevated risk of interruption; the drive is \
             saved if it comes to that",
        ),
        News::NotRenewed { error, until } => report.say(&format!(
            "the lease cannot be renewed: {error}\nunless that works again, the host saves the \
             drive for the next connect and switches itself off at {until:.0}"
        )),
        News::Renewed => report.say("the lease is renewed again"),
        // A lost connection shows where it is used: the shell has its own way with it.
        News::Host(HostEvent::Notice { .. } | HostEvent::Unmounted | HostEvent::Clients(_))
        | News::Lost => {}
    }
    None
}
