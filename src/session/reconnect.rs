//! The way back to a host whose connection was lost, while its shell goes on there.
//!
//! It is tried for [`Timing::grace`], visibly, and the terminal goes on to read escapes. It ends
//! sooner where there is nothing to come back to: EC2 says that the instance is gone, or the host
//! has begun to close. What then becomes of the drive is the save's business, not this file's.
//!
//! [`Timing::grace`]: crate::drive::Timing::grace

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::container::Inside;
use super::ending::{Ending, Interruption};
use super::shell::ended;

use super::monitor::Shared;
use crate::drive::HostError;
use crate::ec2::{Ec2, Instance, InstanceState};
use crate::failure::{Exit, Failure};
use crate::host::scripts::Host;
use crate::report::Report;
use crate::signals::{Signal, Signals};
use crate::ssh::terminal::Attached;
use crate::ssh::{Shell, Ssh};

/// Between two tries: a network that comes back is used a moment later.
const AGAIN: Duration = Duration::from_secs(1);
/// How long EC2 may take to say what became of the instance: five round trips with a new TLS
/// connection, and its own time; without a network it never does.
const ANSWER: Duration = Duration::from_secs(10);

/// What it takes to come back.
pub(super) struct Reconnector<'a> {
    pub(super) drive: &'a Shared<'a>,
    pub(super) host: &'a Instance,
    pub(super) ec2: &'a Ec2,
    pub(super) report: &'a Report,
    /// How long a lost connection is tried again.
    pub(super) grace: Duration,
    /// How a command begins that hints name, and for which drive.
    pub(super) command: String,
}

/// What came of trying.
enum Tried {
    Back(Ssh, Host),
    /// There is nothing to come back to: why.
    Gone(String),
    /// Nor anything that could be closed: EC2 has ended the instance.
    Ended(String),
    /// There may be, later: why not now.
    NotNow(String),
}

impl Reconnector<'_> {
    /// Brings `shell` and `inside` back to the host after their connection was lost, because of
    /// `why`. An ending if that cannot be, or if it is not wanted any more.
    pub(super) async fn come_back(
        &mut self,
        shell: &mut Shell,
        inside: &mut Inside,
        signals: &mut Signals,
        why: &str,
    ) -> anyhow::Result<Option<Ending>> {
        // Time that the laptop sleeps does not count: it was no chance to come back. The host has a
        // clock of its own, and says so when it is over.
        let end = Instant::now() + self.grace;
        loop {
            let (ssh, host) = match self.reach(shell, signals, why, end).await? {
                Ok(reached) => reached,
                Err(ending) => return Ok(Some(ending)),
            };
            match shell.attach(&ssh).await {
                Ok(Attached::New | Attached::Same(_)) => {
                    inside.back(host);
                    return Ok(None);
                }
                Ok(Attached::Gone) => {
                    let why = "the host was started anew, without the shell";
                    return Ok(Some(self.over(why)));
                }
                // The connection is lost again, or was never whole.
                Err(_) if Instant::now() < end => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tries until `end`, and says so, unless an ending comes first.
    async fn reach(
        &mut self,
        shell: &mut Shell,
        signals: &mut Signals,
        why: &str,
        end: Instant,
    ) -> anyhow::Result<Result<(Ssh, Host), Ending>> {
        let host = self.host.id.clone();
        let mut ticking = interval(Duration::from_secs(1));
        ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let tried = {
            let mut trying = pin!(self.try_until(end));
            loop {
                tokio::select! {
                    tried = &mut trying => break tried,
                    exit = shell.escaped() => return Ok(Err(ended(exit))),
                    _ = ticking.tick() => {
                        let left = end.saturating_duration_since(Instant::now());
                        shell.notice(&notice(&host, why, left));
                    }
                    signal = signals.next() => match signal {
                        Signal::Suspend => shell.suspend()?,
                        Signal::Continue => shell.resume()?,
                        Signal::Resize => ticking.reset_immediately(),
                        Signal::Interrupt { .. } | Signal::Terminate | Signal::Hangup => {
                            return Ok(Err(Ending::Asked(signal)));
                        }
                    },
                }
            }
        };
        Ok(match tried {
            Tried::Back(ssh, host) => Ok((ssh, host)),
            Tried::Gone(gone) => Err(self.over(&format!("{why}; {gone}"))),
            Tried::Ended(gone) => Err(Ending::Interruption(Interruption::Gone(connection_lost(
                &format!("{why}; {gone}"),
                &self.command,
            )))),
            Tried::NotNow(last) => {
                let minutes = self.grace.as_secs().div_ceil(60);
                shell.close();
                self.report.print(&format!(
                    "no way back to {} for {minutes} min: giving up; the host closes the drive \
                     itself when its lease ends, and switches itself off",
                    self.host.id
                ));
                Err(self.over(&format!("{why}; {last}")))
            }
        })
    }

    async fn try_until(&mut self, end: Instant) -> Tried {
        loop {
            match self.try_once().await {
                Tried::NotNow(_) if Instant::now() < end => sleep(AGAIN).await,
                tried => return tried,
            }
        }
    }

    /// Both are asked at once: either may be out of reach.
    async fn try_once(&mut self) -> Tried {
        let (back, seen) = tokio::join!(
            async { self.drive.lock().await.hosts().back(self.host).await },
            timeout(ANSWER, self.ec2.instance(&self.host.id)),
        );
        let error = match back {
            Ok((ssh, host)) => return Tried::Back(ssh, host),
            Err(HostError::Closing(reason)) => {
                return Tried::Gone(format!("the host is closing: {reason}"));
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
            // Nothing is known.
            Ok(Err(_)) | Err(_) => None,
        };
        match gone {
            Some(state) => Tried::Ended(format!("EC2 says that {} is {state}", self.host.id)),
            None => Tried::NotNow(error.to_string()),
        }
    }

    fn over(&self, why: &str) -> Ending {
        Ending::Failed(connection_lost(why, &self.command))
    }
}

/// What is said before the shell: what becomes of it without a network, and while the laptop
/// sleeps; the host waits as long as its `lease`.
pub(super) fn rule(lease: Duration, grace: Duration) -> String {
    let text = |span: Duration| match span.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    };
    format!(
        "reconnects for {}; asleep longer than {} ends this session; --keep 8h",
        text(grace),
        text(lease)
    )
}

/// A connection that is lost for good, in words.
pub(super) fn connection_lost(why: &str, command: &str) -> Failure {
    Failure::new(
        Exit::Disconnected,
        anyhow!("the connection was lost: {why}"),
    )
    .hint(format!(
        "{command} again: what was written to the drive is still there"
    ))
}

fn notice(host: &crate::ec2::InstanceId, why: &str, left: Duration) -> [String; 4] {
    let left = left.as_secs();
    [
        format!(
            "xdrive: connection lost, reconnecting for {}:{:02} more; ~. gives up ",
            left / 60,
            left % 60
        ),
        format!("{host}: {why}"),
        "The shell and what runs in it go on there; this screen comes back as it was.".to_owned(),
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
        let long = super::rule(Duration::from_hours(8), Duration::from_mins(10));
        assert!(long.contains("asleep longer than 8 h ends"), "{long}");
    }
}
