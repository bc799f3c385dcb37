//! The reconnector: reconnects to a host whose connection was lost, while what runs there goes on.
//!
//! Tries for [`Timing::grace`], with a line at the beginning and one at the end. Stops sooner if
//! reconnecting is impossible: the instance is gone, or the host has begun to close.
//!
//! [`Timing::grace`]: crate::drive::Timing::grace

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep, timeout};

use super::monitor::SharedReconciler;
use crate::drive::HostError;
use crate::ec2::{Ec2, Instance, InstanceState, Market};
use crate::failure::{Exit, Failure};
use crate::host::scripts::Host;
use crate::ids::DriveName;
use crate::opener::{Ending, Interruption};
use crate::report::{Report, Text};
use crate::ssh::Ssh;

/// The pause between two attempts: short, to use a network soon after it is back.
const AGAIN: Duration = Duration::from_secs(1);
/// How long EC2 may take to describe the instance: five round trips with a new TLS connection, and
/// its own time. Without a network it never answers.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// Reconnects to a host.
pub(crate) struct Reconnector<'a> {
    /// The drive's name.
    pub(crate) name: &'a DriveName,
    pub(crate) drive: &'a SharedReconciler<'a>,
    pub(crate) host: &'a Instance,
    pub(crate) ec2: &'a Ec2,
    pub(crate) report: &'a Report,
    /// How long it tries.
    pub(crate) grace: Duration,
    /// The command that connects to the drive, for hints.
    pub(crate) command: String,
}

/// The result of an attempt.
pub(crate) enum Attempt {
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
    /// Reaches the host again after its connection was lost, because of `why`, for what has neither
    /// a screen nor anything that goes on there. `lost` is the time of the first loss since a
    /// connection brought anything: a new loss is reported, and the grace begins with it.
    pub(crate) async fn after_loss(
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
    pub(crate) fn instance(&self) -> String {
        self.host.id.drive_label(self.name)
    }

    /// Reports that it is given up.
    pub(crate) fn report_end(&self) {
        self.report.print(&format!(
            "no way back to {} for {}: giving up; the host closes the drive itself when its lease \
             ends, and switches itself off",
            self.instance(),
            in_words(self.grace)
        ));
    }

    /// The ending after the last attempt, for a connection that was lost because of `why`.
    pub(crate) fn ending(&self, last: Attempt, why: &str) -> Ending {
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

    /// Tries until `end`. Returns the last attempt.
    pub(crate) async fn try_until(&self, end: Instant) -> Attempt {
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
        let moved = match &seen {
            Ok(Ok(Some(instance))) if instance.address != self.host.address => Some(instance),
            _ => None,
        };
        let connected = match (connected, moved) {
            // It has another address since.
            (Err(HostError::Unreachable(_)), Some(moved)) => {
                self.drive.lock().await.hosts().reconnect(moved).await
            }
            (connected, _) => connected,
        };
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
    pub(crate) fn taken_back(&self) -> Failure {
        let error = anyhow!("EC2 took {} back", self.instance());
        let hint = format!("{} again once the drive is up", self.command);
        Failure::new(Exit::TryAgain, error).hint(hint)
    }

    /// Reports the connection after the one that was lost.
    pub(crate) fn report_again(&self, after: Duration) {
        let (host, seconds) = (self.instance(), after.as_secs());
        self.report
            .print(&format!("connected to {host} again after {seconds} s"));
    }

    /// The ending of what has lost its connection for good, because of `why`.
    pub(crate) fn over(&self, why: &str) -> Ending {
        Ending::Failed(connection_lost(why, &self.command))
    }
}

/// Whether EC2 says that it took `instance` back, which has ended.
pub(crate) async fn was_taken_back(ec2: &Ec2, instance: &Instance) -> bool {
    instance.market == Market::Spot && ec2.was_taken_back(&instance.id).await.unwrap_or(false)
}

/// Writes a length of time in words, such as `8 h`, `15 min` or `45 s`; without the seconds of many
/// minutes and the minutes of many hours.
pub(crate) fn in_words(time: Duration) -> String {
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
pub(crate) fn connection_lost(why: &str, command: &str) -> Failure {
    Failure::new(
        Exit::Disconnected,
        anyhow!("the connection was lost: {why}"),
    )
    .hint(format!(
        "{command} again: what was written to the drive is still there"
    ))
}

/// The line about a lost connection.
pub(crate) fn lost(why: &str) -> String {
    format!("the connection was lost: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
