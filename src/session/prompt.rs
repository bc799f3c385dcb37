//! Waiting, for work or for a person's answer, and what ends that.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Session;
use crate::report::Report;
use crate::signals::{Signal, Signals};
use crate::ssh::streams::answer;

/// How long an answer is waited for: the drive is off the bill but for its volume, and whoever left
/// the computer finds it saved.
const ANSWER: Duration = Duration::from_mins(5);

/// What `work` comes to; or, with the work given up, the signal that asked for an end.
pub(super) async fn unless_ended<T>(
    signals: &mut Signals,
    report: &Report,
    work: impl Future<Output = T>,
) -> Result<T, Signal> {
    let mut ticking = pin!(report.keep_ticking());
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            () = &mut ticking => {}
            signal = signals.next() => match signal {
                Signal::Interrupt { .. } | Signal::Terminate | Signal::Hangup => return Err(signal),
                // The shell that stopped xdrive shows that; the cloud cannot be stopped.
                Signal::Suspend => report.suspend(),
                Signal::Resize | Signal::Continue => {}
            },
        }
    }
}

impl Session {
    /// Asks a question that is answered by yes or no; an empty line is the `usual` answer. No
    /// answer is no, and so is a signal.
    pub(super) async fn ask(&mut self, question: &str, usual: bool) -> bool {
        if !crate::terminal::is_interactive() {
            return false;
        }
        let end = Instant::now() + ANSWER;
        loop {
            let mut answer = pin!(answer());
            self.report.ask(question);
            let answer = loop {
                tokio::select! {
                    answer = &mut answer => break answer.ok().flatten(),
                    () = sleep_until(end) => break None,
                    signal = self.signals.next() => match signal {
                        Signal::Interrupt { .. } | Signal::Terminate | Signal::Hangup => break None,
                        Signal::Suspend => {
                            self.report.suspend();
                            self.report.ask(question);
                        }
                        Signal::Resize | Signal::Continue => {}
                    },
                }
            };
            match answer.map(|answer| answer.trim().to_lowercase()).as_deref() {
                Some("") => return usual,
                Some("y" | "yes") => return true,
                Some("n" | "no") => return false,
                Some(_) => {}
                None => {
                    self.report.print("");
                    return false;
                }
            }
        }
    }
}
