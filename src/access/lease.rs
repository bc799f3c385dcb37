//! The lease of a host that this process is attached to: renewed while the process lives, with the
//! host's events meanwhile.
//!
//! First the record, then the host: `xdrive:until` is written before the host's lease is refreshed,
//! so that no host's lease is longer than the tag that every laptop reads. Where the record cannot
//! be written the host's lease is not refreshed either, and the host closes at its end: that is
//! reported, and retried.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::drive::{lease_left, tags};
use crate::ec2::{self, Ec2};
use crate::host::{ClientLock, HostEvent};
use crate::ids::InstanceId;

/// The default lease: how long an instance runs on without a sign of life from here. Longer than a
/// laptop is carried between rooms, shorter than a forgotten GPU gets expensive.
pub(crate) const LEASE: Duration = Duration::from_mins(15);

/// The pause between two checks whether to renew. A laptop that slept renews at once, not a third
/// of a lease later: the pause is short, and the clock counts sleep.
const CHECK: Duration = Duration::from_secs(5);

/// The longest pause between two renewals, however long the lease: two clients that write at once
/// may leave the earlier of two ends in the record, which must be renewed before it is reached.
const RENEW: Duration = Duration::from_mins(5);

/// News of a host or of its lease.
#[derive(Debug)]
pub(crate) enum News {
    /// An event on the host.
    Host(HostEvent),
    /// The lease could not be renewed, and is not yet at its end.
    NotRenewed {
        /// Why.
        error: ec2::Error,
        /// The lease's end, unless it is renewed before.
        until: Timestamp,
    },
    /// The lease was renewed again, after [`News::NotRenewed`].
    Renewed,
    /// The client is not attached any more: its connection or its lock has ended.
    Lost,
}

/// The context in which leases are kept.
#[derive(Debug, Clone)]
pub(crate) struct LeaseContext {
    /// The EC2 of the record.
    pub(crate) ec2: Ec2,
    pub(crate) clock: Clock,
    /// The receiver of news.
    pub(crate) news: UnboundedSender<News>,
    /// How long hosts may be idle, zero for ever; none leaves that to others.
    pub(crate) idle: Option<Duration>,
}

/// The task that keeps a host's lease. Dropping it detaches this process from the host.
#[derive(Debug)]
pub(super) struct Lease {
    task: JoinHandle<()>,
    /// How long it is.
    length: watch::Sender<Duration>,
}

impl Lease {
    /// Keeps the lease of `instance`, which has just begun with `lock` and ends `length` after each
    /// renewal.
    pub(super) fn keep(
        instance: InstanceId,
        lock: ClientLock,
        length: Duration,
        context: LeaseContext,
    ) -> Self {
        let (length, changes) = watch::channel(length);
        let task = tokio::spawn(keep(instance, lock, changes, context));
        Self { task, length }
    }

    /// Changes its length, and renews it at once.
    pub(super) fn change(&self, length: Duration) {
        self.length.send_if_modified(|known| {
            let is_new = *known != length;
            *known = length;
            is_new
        });
    }

    /// Whether this client is still attached, by the last news.
    pub(super) fn is_held(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If a tag is being written, the record's end is at most later than the host's own.
        self.task.abort();
    }
}

async fn keep(
    instance: InstanceId,
    mut lock: ClientLock,
    mut changes: watch::Receiver<Duration>,
    context: LeaseContext,
) {
    let LeaseContext { clock, news, .. } = &context;
    if let Some(idle) = context.idle {
        lock.set_idle(idle);
    }
    let mut length = *changes.borrow_and_update();
    // Renewed at once, too: if the laptop slept between the record and the host's answer, the
    // host's lease ends later than the record says.
    let mut renewed = None;
    let began = clock.now();
    let mut has_failed = false;
    let mut check = tokio::time::interval(CHECK.min(length / 6));
    check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = lock.event() => {
                let Some(event) = event else {
                    let _ = news.send(News::Lost);
                    return;
                };
                // Fails only where the session has ended, and with it this lease.
                let _ = news.send(News::Host(event));
            }
            Ok(()) = changes.changed() => {
                length = *changes.borrow_and_update();
                renewed = None;
                check.reset_immediately();
            }
            _ = check.tick() => {
                let is_young = |at| clock.boot().since(at) < RENEW.min(length / 3);
                if renewed.is_some_and(|(at, _)| is_young(at)) {
                    continue;
                }
                let now = (clock.boot(), clock.now());
                match extend(&context, &instance, length).await {
                    Ok(_) => {
                        // A lock that has ended is seen above. If a sleep outlasted the lease, the
                        // next check renews it.
                        let spent = clock.boot().since(now.0);
                        if let Some(left) = lease_left(length, spent) {
                            let _ = lock.refresh(left);
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

/// Records that the lease of `instance` ends `length` from now, unless it ends later: of several
/// clients, the one with the longest lease counts. Returns the end that is recorded.
pub(super) async fn extend(
    context: &LeaseContext,
    instance: &InstanceId,
    length: Duration,
) -> Result<Timestamp, ec2::Error> {
    let until = context.clock.now() + length;
    let there = context.ec2.instance(instance).await?;
    let there = there.and_then(|there| tags::until(&there.tags));
    match there {
        Some(there) if there >= until => Ok(there),
        _ => {
            let tags = tags::lease(until);
            context.ec2.tag(instance.as_str(), &tags).await?;
            Ok(until)
        }
    }
}
