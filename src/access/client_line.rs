//! A client's line on a host, `SESSION TIME CALLER`, and a host's answers in the drive's terms.

use jiff::Timestamp;

use super::login::Refusal;
use crate::drive::{Client, HostError, NoAnswer, Route};
use crate::host::facts::{ScriptError, VolumeProblem};
use crate::ids::SessionId;

/// The line of a client that attaches at `since`.
pub(super) fn line(session: &SessionId, since: Timestamp, caller: &str) -> String {
    format!("{session} {since} {caller}")
}

/// The suffix of the owner in the client line of an SSH client's connection. `shell/host/presence`
/// has it, too.
const BY_SSH: &str = " by ssh";

/// The caller of such a client.
pub(crate) fn by_ssh(caller: &str) -> String {
    format!("{caller}{BY_SSH}")
}

/// Whether the client is an SSH client's connection: it keeps its host up, and saves nothing.
pub(super) fn is_by_ssh(line: &str) -> bool {
    line.ends_with(BY_SSH)
}

/// The session in a client's line.
pub(super) fn session_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

/// Owner and time in a client's line.
fn owner_and_since(line: &str) -> (String, String) {
    let mut words = line.splitn(3, ' ').skip(1);
    let since = words.next().unwrap_or("an unknown time");
    // For people, to the second.
    let since = since
        .parse::<Timestamp>()
        .map_or_else(|_| since.to_owned(), |time| format!("{time:.0}"));
    let owner = words.next().unwrap_or(line).to_owned();
    (owner, since)
}

/// Parses the line of another client.
pub(super) fn parse_other(line: &str) -> Client {
    let (owner, since) = owner_and_since(line);
    Client::Other { owner, since }
}

/// A script's error, in the drive's terms.
pub(super) fn translated(error: ScriptError) -> HostError {
    match error {
        ScriptError::Ssh(error) => HostError::Unreachable(error.to_string()),
        ScriptError::Closing(reason) => HostError::Closing(reason),
        ScriptError::Busy {
            owner: Some(line), ..
        } => {
            let (owner, since) = owner_and_since(&line);
            HostError::Busy { owner, since }
        }
        ScriptError::WrongVolume {
            problem: VolumeProblem::HalfMade,
            words,
        } => HostError::Garbled(words),
        ScriptError::WrongVolume { words, .. } => HostError::Damaged(words),
        other => HostError::Failed(other.to_string()),
    }
}

/// The reason for no answer, if the login failed for lack of one.
pub(super) fn no_answer(refusal: &Refusal) -> Option<NoAnswer> {
    match refusal {
        Refusal::KeyRefused(_) => None,
        Refusal::ProxyFailed(no_answer) => Some(no_answer.clone()),
        Refusal::Unreachable(why) | Refusal::OtherHostKey(why) => Some(NoAnswer {
            why: why.clone(),
            route: Route::Open,
        }),
    }
}
