//! The return to a shell or command whose connection was lost, while it goes on on its host.
//!
//! Tries for [`Timing::grace`], with a notice on the screen, and still reads escapes; for a command
//! with a line at the beginning and one at the end. The drive is saved after that as after any other
//! ending.
//!
//! [`Timing::grace`]: crate::drive::Timing::grace

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::container::ContainerSession;
use crate::attached::runs::report_missing;
use crate::attached::{Attempt, Reconnector, in_words, lost};
use crate::host::scripts::Host;
use crate::opener::Ending;
use crate::report::{Text, one_line};
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::shell::Again;
use crate::ssh::{Shell, Ssh};

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

    /// Reports that a command is attached again, and what of its output is lost.
    fn report_return(&self, after: Duration, lost: [u64; 2]) {
        self.report_again(after);
        report_missing(self.report, lost, false);
    }
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
}
