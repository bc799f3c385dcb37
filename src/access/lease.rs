//! The lease of a host that this process is attached to: renewed as long as it lives, and what the
//! host announces meanwhile.
//!
//! First the record, then the host: `xdrive:until` is written before the host is told, so that no
//! host lives longer under its lease than any laptop can read. Where the record cannot be written
//! the host is not told either, and closes when its time is over: that is said, and tried again.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::drive::{lease_left, tags};
use crate::ec2::{self, Ec2, InstanceId};
use crate::host::scripts::{ClientLock, HostEvent};

/// How often it is looked whether to renew. A laptop that slept renews at once, not a third of a
/// lease later: the pause is short, and the clock counts sleep.
const LOOK: Duration = Duration::from_secs(5);

/// The longest a lease goes without being renewed, however long it is: two clients that write at
/// once may leave the earlier of two ends in the record, and that one must not come to pass first.
const RENEW: Duration = Duration::from_mins(5);

/// What a host, or the keeping of its lease, has to say.
#[derive(Debug)]
pub(crate) enum News {
    /// Something happened there.
    Host(HostEvent),
    /// The lease could not be renewed; it ends then unless that works again.
    NotRenewed {
        /// Why.
        error: ec2::Error,
        /// The end.
        until: Timestamp,
    },
    /// It was renewed again, after it could not be.
    Renewed,
    /// The host does not know this client any more: the connection has ended.
    Lost,
}

/// What leases are kept with.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// Where the record is.
    pub(crate) ec2: Ec2,
    /// The time.
    pub(crate) clock: Clock,
    /// Who hears of it.
    pub(crate) news: UnboundedSender<News>,
}

/// This process's attachment to a host, whose lease it keeps. Dropped, it lets go of both.
#[derive(Debug)]
pub(super) struct Lease(JoinHandle<()>);

impl Lease {
    /// Keeps the lease of `instance`, which was just begun with `hold`: it ends `length` after the
    /// last sign of life.
    pub(super) fn keep(
        instance: InstanceId,
        hold: ClientLock,
        length: Duration,
        terms: Terms,
    ) -> Self {
        Self(tokio::spawn(keep(instance, hold, length, terms)))
    }

    /// Whether the host still knows this client, as far as was heard.
    pub(super) fn is_held(&self) -> bool {
        !self.0.is_finished()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A tag that is being written is at most an end that is later than the host's own.
        self.0.abort();
    }
}

async fn keep(instance: InstanceId, mut hold: ClientLock, length: Duration, terms: Terms) {
    let Terms { clock, news, .. } = &terms;
    // At once, too: whoever slept between the record and the host's word had the host live longer
    // than the record says.
    let mut renewed = None;
    let began = clock.now();
    let mut has_failed = false;
    let mut look = tokio::time::interval(LOOK.min(length / 6));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = hold.event() => {
                let Some(event) = event else {
                    let _ = news.send(News::Lost);
                    return;
                };
                // Whoever hears no news any more lets go of the lease as well.
                let _ = news.send(News::Host(event));
            }
            _ = look.tick() => {
                let is_young = |at| clock.boot().since(at) < RENEW.min(length / 3);
                if renewed.is_some_and(|(at, _)| is_young(at)) {
                    continue;
                }
                let now = (clock.boot(), clock.now());
                match extend(&terms, &instance, length).await {
                    Ok(()) => {
                        // One that is gone is heard of above; one whose lease was over before it
                        // was told, after a sleep, is told at the next look.
                        let spent = clock.boot().since(now.0);
                        if let Some(left) = lease_left(length, spent) {
                            let _ = hold.refresh(left);
                        }
                        renewed = Some(now);
                        if std::mem::take(&mut has_failed) {
                            let _ = news.send(News::Renewed);
                        }
                    }
                    Err(error) if !has_failed => {
                        has_failed = true;
                        let until = renewed.map_or(began, |(_, at)| at) + length;
                        let _ = news.send(News::NotRenewed { error, until });
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

/// Writes down that the lease of `instance` ends `length` from now, unless it ends later: of
/// several clients, the one with the longest counts.
pub(super) async fn extend(
    terms: &Terms,
    instance: &InstanceId,
    length: Duration,
) -> Result<(), ec2::Error> {
    let until = terms.clock.now() + length;
    let there = terms.ec2.instance(instance).await?;
    let there = there.and_then(|there| tags::until(&there.tags));
    if there.is_none_or(|there| there < until) {
        terms
            .ec2
            .tag(instance.as_str(), &tags::lease(until))
            .await?;
    }
    Ok(())
}
