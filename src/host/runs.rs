//! Runs: the commands that run on a host, and those that are on record on its drive. The other side
//! is `shell/host/command.py` and `shell/host/runs.py`.

use std::num::NonZeroU8;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::container::CommandId;
use crate::ids::ContainerName;
use crate::quote::join;

/// A request to run a command.
#[derive(Debug, Clone, Copy)]
pub struct CommandOrder<'a> {
    /// The command's id.
    pub id: &'a CommandId,
    /// The command's name for people: its words as they were typed.
    pub label: &'a str,
    /// The line of the client that the host has while it runs; after a `?` only while no caller is
    /// attached to it.
    pub client: &'a str,
    /// How long it may take; none if that is not limited.
    pub limit: Option<Limit>,
    /// The try that begins; none of a command that is not begun again.
    pub attempt: Option<Attempt<'a>>,
    /// Whether a close may freeze it.
    pub freezes: bool,
    /// A string for a shell.
    pub command: &'a str,
    /// How many bytes of each of its outputs are kept.
    pub kept: u64,
}

/// A try of a command that begins.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The number of the try.
    pub number: u32,
    /// How the command is begun again on its host after a failure of its own.
    pub retry: &'a Retry,
}

impl Attempt<'_> {
    /// The words of it (`shell/host/retry.py`).
    #[must_use]
    pub fn words(&self) -> String {
        let codes: Vec<String> = self.retry.codes.iter().map(NonZeroU8::to_string).collect();
        format!("{} {} {}", self.number, self.retry.times, codes.join(","))
    }
}

/// How a command that fails by itself is begun again: on its host, after a pause.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Retry {
    /// How often.
    pub times: u32,
    /// The exit codes of such a failure; any if there are none here.
    pub codes: Vec<NonZeroU8>,
}

/// The most tries that a run has: the first, and as many as `--tries` and `--retry` allow
/// (`quantity::tries`).
pub(crate) const MOST_TRIES: u32 = 1 + 2 * 1000;

/// How long a command may take.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Until it gets SIGTERM: a second at least.
    pub time: Duration,
    /// From then on until it gets SIGKILL.
    pub notice: Duration,
    /// The flag that asks for it.
    pub by: &'static str,
}

/// The most characters by which a command is called: they are an argument on its host.
const LABEL: usize = 2000;

/// A short name for people of the command with these words.
#[must_use]
pub fn label(words: &[String]) -> String {
    let label = join(words);
    if label.chars().count() <= LABEL {
        return label;
    }
    let begin: String = label.chars().take(LABEL - 1).collect();
    format!("{begin}…")
}

/// A command that runs on a host, or ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The run's id, hexadecimal digits.
    #[serde(rename = "run")]
    pub id: String,
    /// The command's words.
    pub command: String,
    /// The container that it is for; empty for the main one, and for what an earlier version began.
    #[serde(default)]
    pub container: String,
    /// The number of this try; none of a command that is not begun again.
    #[serde(default, rename = "try")]
    pub number: Option<u32>,
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// When it ended; none while it runs, and if it is lost.
    pub ended: Option<f64>,
    /// The exit status, likewise.
    pub status: Option<u8>,
    /// Why its host had begun to close when it ended, if it had; none where an earlier version began it.
    #[serde(default)]
    pub closing: Option<String>,
    /// Whether it vanished with its host: nobody knows its end.
    #[serde(default)]
    pub is_lost: bool,
    /// Whether it is frozen on the drive, and goes on with that.
    #[serde(default)]
    pub is_frozen: bool,
    /// How it would be frozen now; none of one that may not be, or does not run.
    #[serde(default)]
    pub freezing: Option<Freezing>,
    /// Whether a session can attach to it: it runs, or no caller has received its exit status.
    #[serde(default)]
    pub is_kept: bool,
    /// How many bytes its former tries on this host wrote to standard output, and to standard error: its
    /// own are counted from there.
    #[serde(default)]
    pub first: [u64; 2],
    /// The last line that it printed.
    #[serde(default)]
    pub last: String,
    /// What became of its results; none if they go nowhere.
    #[serde(default)]
    pub results: Option<Brought>,
}

/// How a run would be frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freezing {
    /// Whether it would be by its user: that close has minutes for it.
    pub fits: bool,
    /// How it would be under a notice of EC2's, in words.
    pub words: String,
}

/// What became of the results of a run that go to S3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Brought {
    /// When the last sync that was done began, in seconds since 1970.
    pub at: Option<f64>,
    /// Why the last one was not, in words.
    pub why: Option<String>,
}

impl Brought {
    /// When the last sync that was done began.
    #[must_use]
    pub fn synced_at(&self) -> Option<Timestamp> {
        self.at.map(moment)
    }
}

/// What a host leaves of a run on the drive (`shell/host/spool.py`, `record`).
#[derive(Deserialize)]
struct Record {
    #[serde(flatten)]
    run: Run,
    /// The bytes that it wrote to standard output, and to standard error.
    written: [u64; 2],
}

impl Run {
    /// Parses one of `runs.py`'s facts.
    pub(super) fn parse(fact: &str) -> Option<Self> {
        serde_json::from_str(fact).ok()
    }

    /// Parses the record of the run `id` on a drive that is mounted nowhere. Returns it without its last
    /// line, and the bytes that this try wrote to standard output and to standard error. It `is_frozen` if
    /// its memory is on the drive, too.
    pub(crate) fn on_record(
        id: &CommandId,
        record: &[u8],
        is_frozen: bool,
    ) -> Option<(Self, [u64; 2])> {
        let Record {
            mut run,
            mut written,
        } = serde_json::from_slice(record).ok()?;
        for (written, first) in written.iter_mut().zip(run.first) {
            *written = written.saturating_sub(first);
        }
        id.as_str().clone_into(&mut run.id);
        run.is_frozen = is_frozen;
        run.is_lost = run.status.is_none() && !is_frozen;
        Some((run, written))
    }

    /// Whether it still runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.status.is_none() && !self.is_lost && !self.is_frozen
    }

    /// The exit status of one that has ended for good: by itself, or well. One that the close of its
    /// host has ended may have done half of its work.
    #[must_use]
    pub fn finished(&self) -> Option<u8> {
        self.status
            .filter(|status| *status == 0 || self.closing.is_none())
    }

    /// Whether it failed by itself.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.finished().is_some_and(|status| status != 0)
    }

    /// When it began.
    #[must_use]
    pub fn began_at(&self) -> Timestamp {
        moment(self.began)
    }

    /// How long it took, or has taken until `now`, in seconds; 0 if it is lost.
    #[must_use]
    pub fn length(&self, now: Timestamp) -> u64 {
        if self.is_lost {
            return 0;
        }
        let end = self.ended.map_or(now, moment);
        let seconds = end.duration_since(self.began_at()).as_secs();
        u64::try_from(seconds).unwrap_or_default()
    }

    /// Whether it ended in that time before `now`, or is lost.
    pub(crate) fn ended_within(&self, time: Duration, now: Timestamp) -> bool {
        self.ended.is_none_or(|ended| {
            let since = now.duration_since(moment(ended));
            since <= SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
        })
    }

    /// The name of its container; none for the main one.
    #[must_use]
    pub fn container_name(&self) -> Option<ContainerName> {
        self.container.parse().ok()
    }

    /// The run's id, if it can be parsed.
    #[must_use]
    pub fn command_id(&self) -> Option<CommandId> {
        CommandId::parse(&self.id)
    }
}

/// The moment `seconds` after the beginning of 1970; 1970 itself if that is out of range.
fn moment(seconds: f64) -> Timestamp {
    let since = SignedDuration::try_from_secs_f64(seconds).unwrap_or_default();
    Timestamp::from_duration(since).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_parsed_and_what_is_none_is_not() {
        let fact = r#"{"run": "1f", "command": "sleep 1", "began": 1.5, "ended": null,
            "status": null, "is_lost": false, "is_kept": true, "bound": 1, "kept": [0, 0],
            "written": [2, 0], "since": [0, 0], "last": "x"}"#;
        let run = Run::parse(fact).unwrap();
        assert!(run.runs() && run.last == "x");
        assert_eq!(
            run.container_name(),
            None,
            "it was begun by an earlier version"
        );
        let fact_in = fact.replace("\"ended\"", "\"container\": \"tools\", \"ended\"");
        let named = Run::parse(&fact_in).unwrap().container_name();
        assert_eq!(named, Some("tools".parse().unwrap()));
        assert_eq!(run.began_at().as_millisecond(), 1500);
        assert_eq!(run.length(moment(3.6)), 2);
        assert_eq!(run.command_id().unwrap().as_str(), "1f");
        let lost = Run::parse(&fact.replace("\"is_lost\": false", "\"is_lost\": true"));
        assert!(!lost.unwrap().runs());
        assert_eq!(Run::parse("{}"), None);
        assert_eq!(CommandId::parse("../x"), None);
    }
}
