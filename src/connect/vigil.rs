//! What goes on beside the shell or the command: the host's announcements, the lease, and what
//! follows from them for the session.
//!
//! Runs until it is told to stop, or until something ends the middle of the session. It stops
//! between two calls, never in the middle of one that changes the cloud.

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::host::scripts::HostEvent;
use crate::report::Report;

use super::Ending;
use super::lease::News;

/// Keeps watch until `stop` comes; an ending, if something ended the session meanwhile.
pub(super) async fn keep(
    news: &mut UnboundedReceiver<News>,
    report: &Report,
    mut stop: oneshot::Receiver<()>,
) -> Option<Ending> {
    loop {
        tokio::select! {
            biased;
            Some(news) = news.recv() => {
                if let Some(ending) = hear(news, report) {
                    return Some(ending);
                }
            }
            // The other side stops it, also by going away.
            _ = &mut stop => return None,
        }
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
