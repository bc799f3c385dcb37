//! Waits, for work or for the user's answer, that end when a signal asks for the end.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep_until};

use crate::failure::{Exit, Failure};
use crate::report::Report;
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::streams::answer;

/// How long to wait for an answer. Meanwhile only the drive's volume is billed; without an answer
/// the drive is saved.
const ANSWER: Duration = Duration::from_mins(5);

/// Waits for `work`; drops it and fails with the signal if one asks for the end.
pub(crate) async fn unless_ended<T>(
    signals: &mut Signals,
    report: &Report,
    work: impl Future<Output = T>,
) -> Result<T, End> {
    let mut ticking = pin!(report.keep_ticking());
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            () = &mut ticking => {}
            signal = signals.next() => match signal {
                Signal::End(end) => return Err(end),
                // The shell shows that it stopped xdrive; the cloud cannot be stopped.
                Signal::Job(Job::Suspend) => report.suspend(),
                Signal::Job(Job::Continue) | Signal::Resize => {}
            },
        }
    }
}

/// As [`unless_ended`], for what changes nothing: the signal's end is the command's failure.
pub(crate) async fn or_interrupted<T>(
    signals: &mut Signals,
    report: &Report,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    unless_ended(signals, report, work).await.map_err(|end| {
        let error = anyhow!("interrupted before anything was begun");
        Failure::new(Exit::from(end), error)
    })
}

/// Whether there is somebody to ask.
#[must_use]
pub(crate) fn can_ask() -> bool {
    crate::terminal::is_interactive()
}

/// Asks a yes/no question; an empty line is the `default` answer. No answer within [`ANSWER`], a
/// signal and a missing terminal are a no.
pub(crate) async fn ask(
    signals: &mut Signals,
    report: &Report,
    question: &str,
    default: bool,
) -> bool {
    if !can_ask() {
        return false;
    }
    let end = Instant::now() + ANSWER;
    loop {
        let answer = line(signals, report, question, end).await.ok().flatten();
        match answer.map(|answer| answer.to_lowercase()).as_deref() {
            Some("") => return default,
            Some("y" | "yes") => return true,
            Some("n" | "no") => return false,
            Some(_) => {}
            None => {
                report.print("");
                return false;
            }
        }
    }
}

/// Asks for a `word` that is to be typed; anything else is a no, and no answer within [`ANSWER`]. An
/// error is the signal that ended the question.
pub(crate) async fn ask_name(
    signals: &mut Signals,
    report: &Report,
    question: &str,
    word: &str,
) -> Result<bool, End> {
    let answer = line(signals, report, question, Instant::now() + ANSWER).await;
    if !matches!(answer, Ok(Some(_))) {
        report.print("");
    }
    Ok(answer?.as_deref() == Some(word))
}

/// The answer to a question, without spaces around it; none by `end`. An error is the signal that
/// ended it.
async fn line(
    signals: &mut Signals,
    report: &Report,
    question: &str,
    end: Instant,
) -> Result<Option<String>, End> {
    let mut answer = pin!(answer());
    report.ask(question);
    let answer = loop {
        tokio::select! {
            answer = &mut answer => break answer.ok().flatten(),
            () = sleep_until(end) => break None,
            signal = signals.next() => match signal {
                Signal::End(end) => return Err(end),
                Signal::Job(Job::Suspend) => {
                    report.suspend();
                    report.ask(question);
                }
                Signal::Job(Job::Continue) | Signal::Resize => {}
            },
        }
    };
    Ok(answer.map(|answer| answer.trim().to_owned()))
}
