//! The monitor, which runs beside the shell or command: receives the host's announcements, renews
//! the attachment, takes checkpoints, and watches for EC2's notice.
//!
//! A notice comes from the host, or from EC2's spot request if that is sooner. The host then closes
//! the drive by itself. The shell or command may go on until the drive is unmounted or the time is
//! over; the terminal's title shows how much is left.
//!
//! Runs until it is stopped, or has an ending for the session. It stops between two calls, never in
//! the middle of one that changes the cloud.

use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::clock::Clock;
use crate::cloud::Cloud;
use crate::drive::{HostError, Reconciler};
use crate::ec2::{Ec2, Instance, Market, TakenBack};
use crate::host::container::CommandId;
use crate::host::{Frozen, HostEvent, closing};
use crate::ids::DriveName;
use crate::report::{Report, Text, ToText, one_line};
use crate::ssh::shell::Message;

use crate::access::lease::News;
use crate::access::{Reattached, SshHosts};
use crate::opener::{Ending, Interruption};

/// The interval between two reads of the spot request: AWS recommends it for the metadata service.
const LOOK: Duration = Duration::from_secs(5);

/// The pause between two attempts to attach again to a host that has forgotten this session.
const AGAIN: Duration = Duration::from_secs(5);

/// How long after a notice the host may take to begin to close: it looks for notices as often as
/// the monitor does, and announces in half a round trip. After that the session closes it.
const CLOSE_DELAY: Duration = Duration::from_secs(15);

/// Where the monitor prints.
#[derive(Clone)]
pub(crate) enum Output {
    /// Standard error, beside the output of a command.
    Report(Report),
    /// The terminal, which shows the shell's screen.
    Terminal(UnboundedSender<Message>),
}

impl Output {
    pub(crate) fn print(&self, line: &(impl ToText + ?Sized)) {
        let line = line.to_text();
        match self {
            Self::Report(report) => report.print(&line),
            // Without a receiver the shell has ended, which is reported elsewhere.
            Self::Terminal(messages) => {
                drop(messages.send(Message::Line(format!("xdrive: {line}"))));
            }
        }
    }

    /// Prints what may be of use, and needs no attention.
    pub(crate) fn note(&self, line: &(impl ToText + ?Sized)) {
        let line = line.to_text();
        match self {
            Self::Report(report) => report.note(&line),
            Self::Terminal(messages) => {
                drop(messages.send(Message::Note(format!("xdrive: {line}"))));
            }
        }
    }

    fn title(&self, title: &str) {
        if let Self::Terminal(messages) = self {
            let _no_shell = messages.send(Message::Title(one_line(title)));
        }
    }
}

/// The reconciler, shared by the monitor and the reconnector.
pub(crate) type SharedReconciler<'a> = Mutex<&'a mut Reconciler<SshHosts>>;

/// The context of a monitor.
pub(crate) struct Context<'a> {
    /// The drive's name.
    pub(crate) name: &'a DriveName,
    pub(crate) instance: &'a Instance,
    pub(crate) ec2: &'a Ec2,
    pub(crate) clock: &'a Clock,
    pub(crate) drive: &'a SharedReconciler<'a>,
    /// The interval between checkpoints, if any are taken.
    pub(crate) checkpoint: Option<Duration>,
    /// How long a command asks to have for its end after a notice; none for a shell.
    pub(crate) notice: Option<Duration>,
    /// The session's own command, and where it is noted that it was frozen; none for a shell.
    pub(crate) command: Option<(CommandId, &'a Cell<bool>)>,
    /// Where it is noted that the session's user was told of an idle GPU; none for what is no session.
    pub(crate) is_idle_reported: Option<&'a Cell<bool>>,
    pub(crate) output: Output,
}

impl<'a> Context<'a> {
    /// A context without checkpoints, and without a command that a notice has to end.
    pub(crate) fn new(
        name: &'a DriveName,
        instance: &'a Instance,
        cloud: &'a Cloud,
        drive: &'a SharedReconciler<'a>,
        output: Output,
    ) -> Self {
        Self {
            name,
            instance,
            ec2: &cloud.ec2,
            clock: &cloud.clock,
            drive,
            checkpoint: None,
            notice: None,
            command: None,
            is_idle_reported: None,
            output,
        }
    }
}

/// Watches over a session while its shell or command runs.
pub(crate) struct Monitor<'a> {
    context: Context<'a>,
    /// When the instance ends, and when EC2's notice of that arrived.
    noticed: Option<(Timestamp, Timestamp)>,
    /// Whether the host closes the drive after a notice.
    is_closing: bool,
    /// When the next checkpoint is due.
    checkpoint_at: Option<Instant>,
    /// When to attach again, while the host does not know this session.
    attach_at: Option<Instant>,
    /// Whether it was printed that attaching again failed.
    is_detached_reported: bool,
}

/// A running piece of work.
type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl<'a> Monitor<'a> {
    pub(crate) fn new(context: Context<'a>) -> Self {
        let checkpoint_at = next(context.checkpoint);
        Self {
            context,
            noticed: None,
            is_closing: false,
            checkpoint_at,
            attach_at: None,
            is_detached_reported: false,
        }
    }

    /// Runs beside `work` until that has ended, or the monitor has an ending for it.
    pub(crate) async fn run_with(
        self,
        news: &mut UnboundedReceiver<News>,
        work: impl Future<Output = anyhow::Result<Ending>>,
    ) -> Ending {
        let (stop, stopped) = oneshot::channel();
        let mut monitor = pin!(self.run(news, stopped));
        tokio::select! {
            ended = work => {
                drop(stop);
                Ending::of_both(monitor.await, ended)
            }
            Some(ending) = &mut monitor => ending,
        }
    }

    /// Runs until `stop` comes. Returns an ending if there was one before.
    async fn run(
        mut self,
        news: &mut UnboundedReceiver<News>,
        mut stop: oneshot::Receiver<()>,
    ) -> Option<Ending> {
        let drive = self.context.drive;
        let host = &self.context.instance.id;
        // The reconciler's events report a checkpoint that succeeds.
        let mut checkpointing: Option<Work<'a, Result<(), String>>> = None;
        let mut attaching: Option<Work<'a, Result<Reattached, HostError>>> = None;
        let notice = notice_from_ec2(self.context.ec2, self.context.clock, self.context.instance);
        let mut notice = pin!(notice);
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
                // Dropping the sender stops it too.
                _ = &mut stop => break self.interruption(),
                at = &mut notice, if self.noticed.is_none() => self.notice(at),
                _ = ticking.tick(), if self.noticed.is_some() => {
                    if self.is_over() {
                        break self.interruption();
                    }
                }
                checkpointed = finished(&mut checkpointing) => {
                    checkpointing = None;
                    self.checkpoint_at = next(self.context.checkpoint);
                    if let Err(error) = checkpointed {
                        self.context.output.print(&format!("no checkpoint: {error}"));
                    }
                }
                held = finished(&mut attaching) => {
                    attaching = None;
                    if let Some(ending) = self.attached(held) {
                        break Some(ending);
                    }
                }
                () = until(self.attach_at), if attaching.is_none() => {
                    self.attach_at = None;
                    attaching = Some(Box::pin(async move {
                        drive.lock().await.hosts().reattach(host).await
                    }));
                }
                // After a notice the save takes the place of checkpoints.
                () = until(self.checkpoint_at), if checkpointing.is_none() && self.noticed.is_none() => {
                    checkpointing = Some(Box::pin(async move {
                        let checkpointed = drive.lock().await.checkpoint().await;
                        checkpointed.map(drop).map_err(|error| error.to_string())
                    }));
                }
            }
        };
        // A call to the cloud is always awaited to its end.
        if let Some(checkpointing) = checkpointing
            && let Err(error) = checkpointing.await
        {
            self.context
                .output
                .print(&format!("no checkpoint: {error}"));
        }
        if let Some(attaching) = attaching {
            let _over = attaching.await;
        }
        ending
    }

    /// The instance, with the drive's name before its id.
    fn instance(&self) -> String {
        self.context.instance.id.drive_label(self.context.name)
    }

    /// Handles the result of attaching again: an ending if the host is closing.
    fn attached(&mut self, held: Result<Reattached, HostError>) -> Option<Ending> {
        match held {
            Ok(Reattached::Still) if !self.is_detached_reported => {}
            Ok(Reattached::Still | Reattached::Again) => {
                self.is_detached_reported = false;
                self.context.output.print(&format!(
                    "{} had forgotten this session, which is attached to it again",
                    self.instance()
                ));
            }
            // The reconnector reports this.
            Ok(Reattached::Unconnected) => self.attach_at = Some(Instant::now() + AGAIN),
            Err(HostError::Closing(_)) if self.noticed.is_some() => self.is_closing = true,
            Err(HostError::Closing(reason)) => return Some(Ending::Closed(reason)),
            Err(error) => {
                self.attach_at = Some(Instant::now() + AGAIN);
                if !std::mem::replace(&mut self.is_detached_reported, true) {
                    let forgotten = format!(
                        "{} has forgotten this session, which is not attached to it any more: \
                         {error}",
                        self.instance()
                    );
                    let follows = "unless that works again, the host saves the drive for the next \
                                   connect and switches itself off when its lease ends";
                    self.context
                        .output
                        .print(&Text::lines([&forgotten, follows]));
                }
            }
        }
        None
    }

    /// Records that EC2 interrupts the instance; prints it once.
    fn notice(&mut self, at: Timestamp) {
        if self.noticed.is_some() {
            return;
        }
        let now = self.context.clock.now();
        self.noticed = Some((at, now));
        let left = at.duration_since(now).as_secs().max(0);
        if left == 0 {
            self.context.output.print(&format!(
                "EC2 has taken {} back; the drive is saved now",
                self.instance()
            ));
            return;
        }
        self.context.output.print(&format!(
            "EC2 takes {} back in {left} s, at {at:.0}; the drive is closed and saved now",
            self.instance()
        ));
        if let Some(asked) = self.context.notice {
            let left = Duration::from_secs(left.unsigned_abs());
            let seconds = closing::time_to_end(asked, left).as_secs();
            self.context
                .output
                .print(&format!("the command is asked to end within {seconds} s"));
        }
    }

    /// Prints what became of a command that may be frozen; notes it of the session's own.
    fn report_freeze(&self, frozen: &Frozen) {
        if let Some((_, is_frozen)) = self.own_command(&frozen.run) {
            is_frozen.set(frozen.outcome.is_ok());
        }
        self.context.output.print(&frozen.to_string());
    }

    /// Prints in a session's terminal, once, what ends an instance whose GPU is idle.
    fn report_idle_gpu(&self, time: Duration) {
        let is_reported = self.context.is_idle_reported;
        let is_terminal = matches!(self.context.output, Output::Terminal(_));
        if is_terminal && is_reported.is_some_and(|reported| !reported.replace(true)) {
            self.context.output.note(&format!(
                "the GPU has been idle for {} min; --idle 30m ends such an instance",
                time.as_secs() / 60
            ));
        }
    }

    fn own_command(&self, run: &str) -> Option<&(CommandId, &'a Cell<bool>)> {
        let own = self.context.command.as_ref();
        own.filter(|(id, _)| id.as_str() == run)
    }

    /// Shows the remaining time; true if there is nothing more to wait for.
    fn is_over(&self) -> bool {
        let Some((at, since)) = self.noticed else {
            return false;
        };
        let now = self.context.clock.now();
        let left = at.duration_since(now).as_secs();
        self.context.output.title(&format!(
            "xdrive: {} ends in {}:{:02}",
            self.instance(),
            left.max(0) / 60,
            left.max(0) % 60
        ));
        let is_idle = !self.is_closing && now >= since + CLOSE_DELAY;
        left < 0 || is_idle
    }

    fn interruption(&self) -> Option<Ending> {
        self.noticed
            .map(|(at, _)| Ending::Interruption(Interruption::Noticed { at, code: None }))
    }

    /// Handles news; an ending if it is one.
    fn receive(&mut self, news: News) -> Option<Ending> {
        match news {
            News::Host(HostEvent::Notice { at, .. }) => self.notice(at),
            News::Host(HostEvent::Closing(_)) if self.noticed.is_some() => self.is_closing = true,
            News::Host(HostEvent::Closing(reason)) => return Some(Ending::Closed(reason)),
            News::Host(HostEvent::Freeze(frozen)) => self.report_freeze(&frozen),
            News::Host(HostEvent::IdleGpu(time)) => self.report_idle_gpu(time),
            News::Host(HostEvent::Unmounted) => return self.interruption(),
            News::Host(HostEvent::Rebalance { .. }) => {
                // One checkpoint at most, and only with `--checkpoint`.
                self.checkpoint_at = self.context.checkpoint.map(|_| Instant::now());
                self.context.output.print(
                    "AWS says that this instance is at an elevated risk of interruption; the \
                     drive is saved if it comes to that",
                );
            }
            News::NotRenewed { error, until } => self.context.output.print(&Text::lines([
                format!("the lease cannot be renewed: {error}"),
                format!(
                    "unless that works again, the host saves the drive for the next connect and \
                     switches itself off at {until:.0}"
                ),
            ])),
            News::Renewed => self.context.output.print("the lease is renewed again"),
            // Mostly the connection is lost too: attaching waits until it is back.
            News::Lost => self.attach_at = Some(Instant::now()),
        }
        None
    }
}

/// When the next checkpoint is due.
fn next(every: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(every?)
}

/// Sleeps until `at`; forever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// Waits for `work`; forever without any.
async fn finished<T>(work: &mut Option<Work<'_, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

/// When the instance ends, once a notice is among the news.
pub(crate) async fn noticed(news: &mut UnboundedReceiver<News>) -> Option<Timestamp> {
    while let Some(news) = news.recv().await {
        if let News::Host(HostEvent::Notice { at, .. }) = news {
            return Some(at);
        }
    }
    None
}

/// Polls the spot request of the instance until it has a notice; returns when the instance ends, or
/// now if it has. On-demand instances never get one.
async fn notice_from_ec2(ec2: &Ec2, clock: &Clock, instance: &Instance) -> Timestamp {
    if instance.market != Market::Spot {
        return std::future::pending().await;
    }
    loop {
        sleep(LOOK).await;
        match ec2.taken_back(&instance.id).await {
            Ok(Some(TakenBack::At(at))) => return at,
            Ok(Some(TakenBack::Already)) => return clock.now(),
            Ok(None) => {}
            // The host announces it as well; without a network neither does.
            Err(error) => tracing::debug!(%error, "cannot look at the spot request"),
        }
    }
}
