//! The reconnector: reconnects to a host whose connection was lost, while its shell or command goes
//! on there.
//!
//! Tries for [`Timing::grace`], with a notice on the screen, and still reads escapes; for a command
//! with a line at the beginning and one at the end. Stops sooner if reconnecting is impossible: the
//! instance is gone, or the host has begun to close. The drive is saved after that as after any
//! other ending.
//!
//! [`Timing::grace`]: crate::drive::Timing::grace

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::container::ContainerSession;
use super::ending::{Ending, Interruption};
use super::monitor::SharedReconciler;
use crate::drive::HostError;
use crate::ec2::{Ec2, Instance, InstanceState, Market};
use crate::failure::{Exit, Failure};
use crate::host::scripts::Host;
use crate::ids::DriveName;
use crate::report::{Report, Text, one_line};
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::shell::Again;
use crate::ssh::{Shell, Ssh};

/// The pause between two attempts: short, to use a network soon after it is back.
const AGAIN: Duration = Duration::from_secs(1);
/// How long EC2 may take to describe the instance: five round trips with a new TLS connection, and
/// its own time. Without a network it never answers.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// Reconnects a shell to its host.
pub(super) struct Reconnector<'a> {
    /// The drive's name.
    pub(super) name: &'a DriveName,
    pub(super) drive: &'a SharedReconciler<'a>,
    pub(super) host: &'a Instance,
    pub(super) ec2: &'a Ec2,
    pub(super) report: &'a Report,
    /// How long it tries.
    pub(super) grace: Duration,
    /// The command that connects to the drive, for hints.
    pub(super) command: String,
}

/// The result of an attempt.
enum Attempt {
    Connected(Ssh, Host),
    /// The host is closing, for this reason.
    Closing(String),
    /// The instance has ended; its state.
    InstanceEnded(String),
    /// Likewise, and EC2 says that it took it back.
    TakenBack,
    /// The attempt failed with this error; another may succeed.
    Failed(String),
}

impl Reconnector<'_> {
    /// Reconnects `shell` and `inside` to the host after their connection was lost, because of
    /// `why`. Returns an ending if that failed, or if the user or a signal ended it.
    pub(super) async fn reconnect(
        &mut self,
        shell: &mut Shell,
        inside: &mut ContainerSession,
        signals: &mut Signals,
        why: &str,
    ) -> anyhow::Result<Option<Ending>> {
        // The laptop's sleep does not count: no attempt was made in it. The host's lease runs by
        // its own clock, and after its end the host answers that it is closing.
        let began = Instant::now();
        let end = began + self.grace;
        if shell.is_piped() {
            let grace = in_words(self.grace);
            let goes_on = format!(
                "the command goes on on {}; reconnecting for {grace}",
                self.instance()
            );
            self.report.print(&Text::lines([lost(why), goes_on]));
        }
        loop {
            let (ssh, host) = match self.reach(shell, signals, why, end).await? {
                Ok(reached) => reached,
                Err(ending) => return Ok(Some(ending)),
            };
            match shell.attach(&ssh).await {
                Ok(Again::Attached(lost)) => {
                    inside.reconnected(host);
                    if shell.is_piped() {
                        self.report_return(began.elapsed(), lost);
                    }
                    return Ok(None);
                }
                Ok(Again::Gone) => {
                    let what = if shell.is_piped() {
                        "command"
                    } else {
                        "terminal"
                    };
                    let why = format!("the host does not have the {what} any more");
                    return Ok(Some(self.over(&why)));
                }
                // The new connection was lost again.
                Err(_) if Instant::now() < end => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tries until `end`, with a notice on the screen, unless an ending comes first.
    async fn reach(
        &mut self,
        shell: &mut Shell,
        signals: &mut Signals,
        why: &str,
        end: Instant,
    ) -> anyhow::Result<Result<(Ssh, Host), Ending>> {
        let host = self.instance();
        let mut ticking = interval(Duration::from_secs(1));
        ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let last = {
            let mut attempts = pin!(self.try_until(end));
            loop {
                tokio::select! {
                    attempt = &mut attempts => break attempt,
                    exit = shell.escaped() => return Ok(Err(exit.into())),
                    _ = ticking.tick() => {
                        let left = end.saturating_duration_since(Instant::now());
                        shell.notice(&notice(&host, why, left));
                    }
                    signal = signals.next() => match signal {
                        Signal::Job(Job::Suspend) => shell.suspend()?,
                        Signal::Job(Job::Continue) => shell.resume()?,
                        Signal::Resize => ticking.reset_immediately(),
                        Signal::End(End::Interrupt { again: false }) if shell.is_piped() => {
                            self.report.print(
                                "the command cannot be reached; Ctrl-C again ends the session",
                            );
                        }
                        Signal::End(end) => return Ok(Err(Ending::Asked(end))),
                    },
                }
            }
        };
        match last {
            Attempt::Connected(ssh, host) => return Ok(Ok((ssh, host))),
            Attempt::Failed(_) => {
                shell.close();
                self.report_end();
            }
            Attempt::Closing(_) | Attempt::InstanceEnded(_) | Attempt::TakenBack => {}
        }
        Ok(Err(self.ending(last, why)))
    }

    /// Reaches the host again after its connection was lost, because of `why`, for what has neither
    /// a screen nor anything that goes on there. `lost` is the time of the first loss since a
    /// connection brought anything: a new loss is reported, and the grace begins with it.
    pub(super) async fn after_loss(
        &self,
        lost: &mut Option<Instant>,
        why: &str,
    ) -> Result<(Ssh, Host), Ending> {
        let since = *lost.get_or_insert_with(|| {
            self.report_loss(why);
            Instant::now()
        });
        let end = since + self.grace;
        // A host that answers may lose what is asked for each time anew.
        if Instant::now() >= end {
            return Err(self.over(why));
        }
        sleep(AGAIN).await;
        self.reach_again(why, end).await
    }

    /// Reports the loss, likewise.
    fn report_loss(&self, why: &str) {
        let goes_on = format!("reconnecting for {}", in_words(self.grace));
        self.report.print(&Text::lines([lost(why), goes_on]));
    }

    /// Tries until `end`, likewise. If the instance is gone that is a failure: it goes on nowhere else.
    async fn reach_again(&self, why: &str, end: Instant) -> Result<(Ssh, Host), Ending> {
        match self.try_until(end).await {
            Attempt::Connected(ssh, host) => Ok((ssh, host)),
            last => {
                if let Attempt::Failed(_) = last {
                    self.report_end();
                }
                Err(match self.ending(last, why) {
                    Ending::Interruption(Interruption::Gone(failure)) => Ending::Failed(failure),
                    ending => ending,
                })
            }
        }
    }

    /// The instance, with the drive's name before its id.
    fn instance(&self) -> String {
        self.host.id.of(self.name)
    }

    /// Reports that it is given up.
    fn report_end(&self) {
        self.report.print(&format!(
            "no way back to {} for {}: giving up; the host closes the drive itself when its lease \
             ends, and switches itself off",
            self.instance(),
            in_words(self.grace)
        ));
    }

    /// The ending after the last attempt, for a connection that was lost because of `why`.
    fn ending(&self, last: Attempt, why: &str) -> Ending {
        match last {
            Attempt::InstanceEnded(ended) => Ending::Interruption(Interruption::Gone(
                connection_lost(&format!("{why}; {ended}"), &self.command),
            )),
            Attempt::TakenBack => Ending::Interruption(Interruption::Taken),
            Attempt::Closing(error) | Attempt::Failed(error) => {
                self.over(&format!("{why}; {error}"))
            }
            Attempt::Connected(..) => self.over(why),
        }
    }

    async fn try_until(&self, end: Instant) -> Attempt {
        loop {
            match self.try_once().await {
                Attempt::Failed(_) if Instant::now() < end => sleep(AGAIN).await,
                attempt => return attempt,
            }
        }
    }

    /// Asks the host and EC2 at the same time: either may be out of reach.
    async fn try_once(&self) -> Attempt {
        let (connected, seen) = tokio::join!(
            async { self.drive.lock().await.hosts().reconnect(self.host).await },
            timeout(ANSWER, self.ec2.instance(&self.host.id)),
        );
        let error = match connected {
            Ok((ssh, host)) => return Attempt::Connected(ssh, host),
            Err(HostError::Closing(reason)) => {
                return Attempt::Closing(format!("the host is closing: {reason}"));
            }
            Err(error) => error,
        };
        let gone = match seen {
            Ok(Ok(Some(instance))) => match instance.state {
                InstanceState::Pending | InstanceState::Running => None,
                InstanceState::Stopping | InstanceState::Stopped => Some("stopped"),
                InstanceState::ShuttingDown | InstanceState::Terminated => Some("terminated"),
            },
            Ok(Ok(None)) => Some("not there any more"),
            // EC2 did not answer.
            Ok(Err(_)) | Err(_) => None,
        };
        match gone {
            Some(_) if self.was_taken_back().await => Attempt::TakenBack,
            Some(state) => {
                Attempt::InstanceEnded(format!("EC2 says that {} is {state}", self.instance()))
            }
            None => Attempt::Failed(error.to_string()),
        }
    }

    /// Whether EC2 says that it took the instance back, which has ended. The end of a connection is
    /// seen before the notice where the host is gone at once.
    async fn was_taken_back(&self) -> bool {
        let asked = timeout(ANSWER, was_taken_back(self.ec2, self.host));
        asked.await.unwrap_or(false)
    }

    /// The failure of what follows an instance that EC2 took back, and goes on nowhere else.
    pub(super) fn taken_back(&self) -> Failure {
        let error = anyhow!("EC2 took {} back", self.instance());
        let hint = format!("{} again once the drive is up", self.command);
        Failure::new(Exit::TryAgain, error).hint(hint)
    }

    /// Reports the connection after the one that was lost.
    pub(super) fn report_again(&self, after: Duration) {
        let (host, seconds) = (self.instance(), after.as_secs());
        self.report
            .print(&format!("connected to {host} again after {seconds} s"));
    }

    /// Reports that a command is attached again, and what of its output is lost.
    fn report_return(&self, after: Duration, lost: [u64; 2]) {
        self.report_again(after);
        self.report_missing(lost, false);
    }

    /// Reports what is lost of a command's standard output, and of its standard error: what its host
    /// did not keep, or its record on the drive.
    pub(super) fn report_missing(&self, lost: [u64; 2], is_on_record: bool) {
        let why = if is_on_record {
            "the record of a command that has ended has the last MiB"
        } else {
            "more than the host keeps; `spool` in the configuration says how much that is"
        };
        for (bytes, stream) in lost.iter().zip(["output", "error"]) {
            if *bytes > 0 {
                self.report.print(&format!(
                    "{bytes} bytes of its standard {stream} are lost: {why}"
                ));
            }
        }
    }

    fn over(&self, why: &str) -> Ending {
        Ending::Failed(connection_lost(why, &self.command))
    }
}

/// Whether EC2 says that it took `instance` back, which has ended.
pub(super) async fn was_taken_back(ec2: &Ec2, instance: &Instance) -> bool {
    instance.market == Market::Spot && ec2.was_taken_back(&instance.id).await.unwrap_or(false)
}

/// The line above the shell: how long it reconnects without a network, and how long the laptop may
/// sleep, which is the host's `lease`.
pub(super) fn rule(lease: Duration, grace: Duration) -> String {
    format!(
        "reconnects for {}; asleep longer than {} ends this session; --keep 8h",
        in_words(grace),
        in_words(lease)
    )
}

/// The line at the beginning of a command without a terminal: how long its host is kept without this
/// computer, and how its user comes back.
pub(super) fn rule_of_command(lease: Duration, attach: &str) -> String {
    format!(
        "goes on without this computer, {} at most (--keep): {attach}",
        in_words(lease)
    )
}

/// Such as `8 h`, `15 min` or `45 s`; without the seconds of many minutes and the minutes of many
/// hours.
pub(super) fn in_words(time: Duration) -> String {
    const MANY: u64 = 10;
    match time.as_secs() {
        seconds if seconds.is_multiple_of(3600) || seconds >= MANY * 3600 => {
            format!("{} h", seconds / 3600)
        }
        seconds if seconds.is_multiple_of(60) || seconds >= MANY * 60 => {
            format!("{} min", seconds / 60)
        }
        seconds => format!("{seconds} s"),
    }
}

/// The failure of a session whose connection is lost for good.
pub(super) fn connection_lost(why: &str, command: &str) -> Failure {
    Failure::new(
        Exit::Disconnected,
        anyhow!("the connection was lost: {why}"),
    )
    .hint(format!(
        "{command} again: what was written to the drive is still there"
    ))
}

/// The line about a lost connection.
fn lost(why: &str) -> String {
    format!("the connection was lost: {why}")
}

/// The notice on the screen while it reconnects.
fn notice(host: &str, why: &str, left: Duration) -> [String; 4] {
    let left = left.as_secs();
    [
        format!(
            "xdrive: connection lost, reconnecting for {}:{:02} more; ~. gives up ",
            left / 60,
            left % 60
        ),
        // Shown in the shell's terminal, by no report.
        one_line(&format!("{host}: {why}")),
        "What runs there goes on; this screen comes back as it was.".to_owned(),
        "~.  end the session and save    ~d  leave it running    ~^Z  suspend xdrive".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_has_the_length_of_this_lease_in_a_line_of_a_terminal() {
        let rule = rule(Duration::from_mins(15), Duration::from_mins(10));
        assert!(rule.contains("asleep longer than 15 min ends this session; --keep 8h"));
        assert!(rule.len() <= 80, "{}", rule.len());
        let command = rule_of_command(Duration::from_hours(8), "xdrive attach demo");
        assert!(command.len() <= 80, "{}", command.len());
        let long = super::rule(Duration::from_hours(8), Duration::from_mins(10));
        assert!(long.contains("asleep longer than 8 h ends"), "{long}");
    }

    #[test]
    fn a_time_is_in_the_words_in_which_it_was_given() {
        for (seconds, words) in [
            (45, "45 s"),
            (90, "90 s"),
            (600, "10 min"),
            (8 * 3600, "8 h"),
            (90 * 60, "90 min"),
            // A day, and what a run's record takes after it.
            (86490, "24 h"),
            (90 * 60 + 90, "91 min"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
