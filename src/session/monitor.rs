//! What goes on beside the shell or the command: the host's announcements, the lease, EC2's notice,
//! and what follows from them for the session.
//!
//! A notice is heard from the host, and from outside where the host cannot be: whichever comes
//! first. The host closes itself; so the middle of the session is left to its own end, with the
//! time that is left in sight, until the drive is unmounted or the time is over.
//!
//! Runs until it is told to stop, or until something ends the middle of the session. It stops
//! between two calls, never in the middle of one that changes the cloud.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::clock::Clock;
use crate::drive::{HostError, Reconciler};
use crate::ec2::{Ec2, Instance, InstanceId, Market};
use crate::host::scripts::HostEvent;
use crate::report::Report;
use crate::ssh::shell::Message;

use super::ending::{Ending, Interruption};
use crate::access::lease::News;
use crate::access::{Held, SshHosts};

/// Between two looks at the spot request, as AWS recommends it for looks from inside.
const LOOK: Duration = Duration::from_secs(5);

/// Between two tries to be attached again to a host that has forgotten this session.
const AGAIN: Duration = Duration::from_secs(5);

/// How long a host has to begin to close, once EC2 has announced its end: it looks as often as this
/// does, and its word takes half a round trip. Then it is closed from here.
const PROMPT: Duration = Duration::from_secs(15);

/// How what happens is said.
pub(super) enum Output {
    /// In between what a command prints.
    Report(Report),
    /// In a terminal that belongs to what runs on the host.
    Terminal(UnboundedSender<Message>),
}

impl Output {
    fn print(&self, line: &str) {
        match self {
            Self::Report(report) => report.print(line),
            // Whoever has no shell any more has been told how it ended.
            Self::Terminal(words) => drop(words.send(Message::Line(format!("xdrive: {line}")))),
        }
    }

    fn title(&self, title: String) {
        if let Self::Terminal(words) = self {
            let _no_shell = words.send(Message::Title(title));
        }
    }
}

/// The drive's own side, shared by what looks after the shell and what goes on beside it.
pub(super) type Shared<'a> = Mutex<&'a mut Reconciler<SshHosts>>;

/// What a monitor works with.
pub(super) struct Context<'a> {
    pub(super) instance: &'a Instance,
    pub(super) ec2: &'a Ec2,
    pub(super) clock: &'a Clock,
    pub(super) drive: &'a Shared<'a>,
    /// How often a checkpoint is taken, if it is.
    pub(super) checkpoint: Option<Duration>,
    pub(super) output: Output,
}

/// What goes on beside a session.
pub(super) struct Monitor<'a> {
    with: Context<'a>,
    /// When the instance ends, once EC2 has announced that, and when that was heard.
    noticed: Option<(Timestamp, Timestamp)>,
    is_closing: bool,
    /// When the next checkpoint is due.
    due: Option<Instant>,
    /// When it is next tried to be attached again, while the host does not know this session.
    forgotten: Option<Instant>,
    /// Whether that was said.
    is_announced: bool,
}

/// Something under way, and what comes of it.
type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl<'a> Monitor<'a> {
    pub(super) fn new(with: Context<'a>) -> Self {
        let due = next(with.checkpoint);
        Self {
            with,
            noticed: None,
            is_closing: false,
            due,
            forgotten: None,
            is_announced: false,
        }
    }

    /// Keeps watch until `stop` comes; an ending, if something ended the session meanwhile.
    pub(super) async fn keep(
        mut self,
        news: &mut UnboundedReceiver<News>,
        mut stop: oneshot::Receiver<()>,
    ) -> Option<Ending> {
        let drive = self.with.drive;
        let host = &self.with.instance.id;
        // The reconciler tells of a good checkpoint itself.
        let mut taking: Option<Work<'a, Result<(), String>>> = None;
        let mut attaching: Option<Work<'a, Result<Held, HostError>>> = None;
        let outside = from_outside(self.with.ec2, self.with.instance);
        let mut outside = pin!(outside);
        let mut ticking = interval(Duration::from_secs(1));
        ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ending = loop {
            tokio::select! {
                biased;
                Some(news) = news.recv() => {
                    if let Some(ending) = self.receive(news) {
                        break Some(ending);
                    }
                }
                // The other side stops it, also by going away.
                _ = &mut stop => break self.interruption(),
                at = &mut outside, if self.noticed.is_none() => self.notice(at),
                _ = ticking.tick(), if self.noticed.is_some() => {
                    if self.is_over() {
                        break self.interruption();
                    }
                }
                checkpointed = finished(&mut taking) => {
                    taking = None;
                    self.due = next(self.with.checkpoint);
                    if let Err(error) = checkpointed {
                        self.with.output.print(&format!("no checkpoint: {error}"));
                    }
                }
                held = finished(&mut attaching) => {
                    attaching = None;
                    if let Some(ending) = self.attached(held) {
                        break Some(ending);
                    }
                }
                () = until(self.forgotten), if attaching.is_none() => {
                    self.forgotten = None;
                    attaching = Some(Box::pin(async move {
                        drive.lock().await.hosts().hold_again(host).await
                    }));
                }
                // The drive itself is saved once the notice has come.
                () = until(self.due), if taking.is_none() && self.noticed.is_none() => {
                    taking = Some(Box::pin(async move {
                        let checkpointed = drive.lock().await.checkpoint().await;
                        checkpointed.map(drop).map_err(|error| error.to_string())
                    }));
                }
            }
        };
        // What was asked of the cloud is always heard to its end.
        if let Some(taking) = taking
            && let Err(error) = taking.await
        {
            self.with.output.print(&format!("no checkpoint: {error}"));
        }
        if let Some(attaching) = attaching {
            let _over = attaching.await;
        }
        ending
    }

    /// What came of attaching again: an ending, if the host takes nobody any more.
    fn attached(&mut self, held: Result<Held, HostError>) -> Option<Ending> {
        let id = &self.with.instance.id;
        match held {
            Ok(Held::Still) if !self.is_announced => {}
            Ok(Held::Still | Held::Again) => {
                self.is_announced = false;
                self.with.output.print(&format!(
                    "{id} had forgotten this session, which is attached to it again"
                ));
            }
            // Whoever is in a shell sees that, and a command ends with its connection.
            Ok(Held::Unconnected) => self.forgotten = Some(Instant::now() + AGAIN),
            Err(HostError::Closing(_)) if self.noticed.is_some() => self.is_closing = true,
            Err(HostError::Closing(reason)) => return Some(Ending::Closed(reason)),
            Err(error) => {
                self.forgotten = Some(Instant::now() + AGAIN);
                if !std::mem::replace(&mut self.is_announced, true) {
                    self.with.output.print(&format!(
                        "{id} has forgotten this session, which is not attached to it any more: \
                         {error}\nunless that works again, the host saves the drive for the next \
                         connect and switches itself off when its lease ends"
                    ));
                }
            }
        }
        None
    }

    /// EC2 has announced the instance's end. Said once.
    fn notice(&mut self, at: Timestamp) {
        if self.noticed.is_some() {
            return;
        }
        let now = self.with.clock.now();
        self.noticed = Some((at, now));
        let left = at.duration_since(now).as_secs().max(0);
        let id = &self.with.instance.id;
        self.with.output.print(&format!(
            "EC2 takes {id} back in {left} s, at {at:.0}; the drive is closed and saved now"
        ));
    }

    /// Shows the time that is left; true when there is nothing more to wait for.
    fn is_over(&self) -> bool {
        let Some((at, heard)) = self.noticed else {
            return false;
        };
        let now = self.with.clock.now();
        let left = at.duration_since(now).as_secs();
        let id = &self.with.instance.id;
        self.with.output.title(format!(
            "xdrive: {id} ends in {}:{:02}",
            left.max(0) / 60,
            left.max(0) % 60
        ));
        let is_idle = !self.is_closing && now >= heard + PROMPT;
        left < 0 || is_idle
    }

    fn interruption(&self) -> Option<Ending> {
        self.noticed
            .map(|(at, _)| Ending::Interruption(Interruption::Noticed { at, code: None }))
    }

    /// Says what is new; an ending if it is one.
    fn receive(&mut self, news: News) -> Option<Ending> {
        match news {
            News::Host(HostEvent::Notice { at, .. }) => self.notice(at),
            News::Host(HostEvent::Closing(_)) if self.noticed.is_some() => self.is_closing = true,
            News::Host(HostEvent::Closing(reason)) => return Some(Ending::Closed(reason)),
            News::Host(HostEvent::Unmounted) => return self.interruption(),
            News::Host(HostEvent::Rebalance { .. }) => {
                // One checkpoint at most, and only where checkpoints are wanted.
                self.due = self.with.checkpoint.map(|_| Instant::now());
                self.with.output.print(
                    "AWS says that this instance is at an elevated risk of interruption; the \
                     drive is saved if it comes to that",
                );
            }
            News::NotRenewed { error, until } => self.with.output.print(&format!(
                "the lease cannot be renewed: {error}\nunless that works again, the host saves \
                 the drive for the next connect and switches itself off at {until:.0}"
            )),
            News::Renewed => self.with.output.print("the lease is renewed again"),
            // With its connection, mostly: then there is nothing to attach over until it is back.
            News::Lost => self.forgotten = Some(Instant::now()),
            News::Host(HostEvent::Clients(_)) => {}
        }
        None
    }
}

/// When the next checkpoint is due, if they are wanted that often.
fn next(every: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(every?)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

async fn finished<T>(work: &mut Option<Work<'_, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

/// When the instance ends, if that was announced among what is new.
pub(super) fn noticed(news: &mut UnboundedReceiver<News>) -> Option<Timestamp> {
    let mut noticed = None;
    while let Ok(news) = news.try_recv() {
        if let News::Host(HostEvent::Notice { at, .. }) = news {
            noticed = Some(at);
        }
    }
    noticed
}

/// Waits until EC2 announces the end of `instance` to those outside: when it is. An instance that
/// is not spot is never interrupted.
async fn from_outside(ec2: &Ec2, instance: &Instance) -> Timestamp {
    if instance.market != Market::Spot {
        return std::future::pending().await;
    }
    loop {
        sleep(LOOK).await;
        if let Some(at) = interruption(ec2, &instance.id).await {
            return at;
        }
    }
}

async fn interruption(ec2: &Ec2, instance: &InstanceId) -> Option<Timestamp> {
    match ec2.spot_status(instance).await {
        Ok(status) => status?.interruption(),
        // The host tells of it as well; and without a network nobody does.
        Err(error) => {
            tracing::debug!(%error, "cannot look at the spot request");
            None
        }
    }
}
