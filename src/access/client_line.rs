//! What hosts say, in the drive's words.

use super::login::Refusal;
use crate::drive::{Client, HostError, NoAnswer, Route};
use crate::host::facts::{self, Oddity};

/// Another client, from its line.
pub(super) fn other(line: &str) -> Client {
    let (owner, since) = owner_and_since(line);
    Client::Other { owner, since }
}

/// The session out of a client's line.
pub(super) fn session_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

/// Owner and time out of a client's line.
pub(super) fn owner_and_since(line: &str) -> (String, String) {
    let mut words = line.splitn(3, ' ').skip(1);
    let since = words.next().unwrap_or("an unknown time");
    // To the second: nobody reads more.
    let since = since
        .parse::<jiff::Timestamp>()
        .map_or_else(|_| since.to_owned(), |time| format!("{time:.0}"));
    let owner = words.next().unwrap_or(line).to_owned();
    (owner, since)
}

/// What a script said, in the drive's words.
pub(super) fn translated(error: facts::HostError) -> HostError {
    match error {
        facts::HostError::Ssh(error) => HostError::Unreachable(error.to_string()),
        facts::HostError::Closing(reason) => HostError::Closing(reason),
        facts::HostError::Busy {
            owner: Some(line), ..
        } => {
            let (owner, since) = owner_and_since(&line);
            HostError::Busy { owner, since }
        }
        facts::HostError::Odd {
            oddity: Oddity::HalfMade,
            words,
        } => HostError::Garbled(words),
        facts::HostError::Odd { words, .. } => HostError::Damaged(words),
        other => HostError::Failed(other.to_string()),
    }
}

/// Why a host did not answer, if that was it.
pub(super) fn no_answer(refusal: &Refusal) -> Option<NoAnswer> {
    match refusal {
        Refusal::KeyRefused(_) => None,
        Refusal::ProxyFailed(no_answer) => Some(no_answer.clone()),
        Refusal::Unreachable(why) => Some(NoAnswer {
            why: why.clone(),
            way: Route::Open,
        }),
    }
}
