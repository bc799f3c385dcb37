//! The output of the scripts on the host, parsed: facts, error messages and exit codes.
//!
//! A fact is a line `xdrive: key=value` on standard output; text for people is on standard error.
//! The exit codes are those at the head of `shell/host/prelude`, and become a [`ScriptError`] here
//! and nowhere else.

use std::str::FromStr;
use std::time::Duration;

use crate::ssh::{Output, SshError};

/// Why a call to the host failed.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The connection failed.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The host began to close, for this reason; it will never mount or start anything again.
    #[error("the host is closing: {0}")]
    Closing(String),
    /// The host is busy: another client is attached (`owner`), or another command is at work.
    #[error("the host is busy: {words}")]
    Busy {
        /// The line of the client that is attached, if that is the reason.
        owner: Option<String>,
        /// The script's message.
        words: String,
    },
    /// The volume is not as ordered.
    #[error("{words}")]
    WrongVolume {
        /// How it differs.
        problem: VolumeProblem,
        /// The script's message.
        words: String,
    },
    /// The image is not available, or cannot be used.
    #[error("{0}")]
    Image(String),
    /// The volume did not appear on the host in time.
    #[error("{0}")]
    NoDevice(String),
    /// An image could not be pulled; dockerd's error.
    #[error("{0}")]
    NotPulled(String),
    /// An image could not be built, or a container not finished; the last lines that were printed.
    #[error("{0}")]
    NotBuilt(String),
    /// A mount leads out of the drive's `/work`, or cannot be made.
    #[error("{0}")]
    Mount(String),
    /// Docker on the host does not keep its images on the drive.
    #[error("{0}")]
    NotOnDrive(String),
    /// The drive has no room left for what was to be done.
    #[error("{0}")]
    Full(String),
    /// Another caller has begun that try of a command.
    #[error("{0}")]
    Begun(String),
    /// The host has a GPU that no container can use.
    #[error("{0}")]
    NoGpu(String),
    /// A script failed.
    #[error("{script} failed on the host (exit code {status}): {words}")]
    Failed {
        /// Script and verb.
        script: &'static str,
        /// The script's exit code.
        status: u32,
        /// The last lines of its standard error.
        words: String,
    },
    /// A script succeeded, but did not print a fact that it must print.
    #[error("{script} on the host did not print {missing}")]
    Garbled {
        /// Script and verb.
        script: &'static str,
        /// The fact that is missing or cannot be parsed.
        missing: &'static str,
    },
}

/// How a volume can differ from what was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeProblem {
    /// The volume should be blank, and is neither blank nor a whole ext4: a format was cut off.
    HalfMade,
    /// The volume should hold a file system, and holds no ext4.
    Foreign,
    /// The volume holds an ext4 with errors that need a person.
    Damaged,
    /// A newer xdrive has written it.
    Newer,
}

impl FromStr for VolumeProblem {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Ok(match word {
            "halfmade" => Self::HalfMade,
            "foreign" => Self::Foreign,
            "damaged" => Self::Damaged,
            "newer" => Self::Newer,
            _ => return Err(()),
        })
    }
}

/// The facts that one script printed, in order.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    script: &'static str,
    lines: Vec<(String, String)>,
}

/// Exit codes, as listed in `shell/host/prelude`.
pub(super) const CLOSING: u32 = 80;
pub(super) const BUSY: u32 = 81;
const WRONG_VOLUME: u32 = 82;
const NO_IMAGE: u32 = 83;
const NO_DEVICE: u32 = 84;
pub(super) const STILL_MOUNTED: u32 = 85;
const NO_GPU: u32 = 86;
const NOT_PULLED: u32 = 87;
const BAD_MOUNT: u32 = 88;
const NOT_BUILT: u32 = 89;
const NOT_ON_DRIVE: u32 = 90;
const FULL: u32 = 92;
const BEGUN: u32 = 93;
/// The exit code of a host whose dockerd hears of nobody in the network that it came to: [`ScriptError::Failed`].
pub(crate) const UNHEARD: u32 = 94;

/// How many of the last lines of standard error an error repeats: enough for docker's own message.
const LAST_LINES: usize = 5;

/// Likewise, of a build that failed.
const LAST_OF_BUILD: usize = 15;

impl Facts {
    /// The facts in `output` of `script`, if its exit code is 0 or one of `also`.
    pub(super) fn read(
        script: &'static str,
        output: &Output,
        also: &[u32],
    ) -> Result<Self, ScriptError> {
        let facts = Self {
            script,
            lines: String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter_map(|line| line.strip_prefix("xdrive: ")?.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        };
        if output.status == 0 || also.contains(&output.status) {
            return Ok(facts);
        }
        let most = if output.status == NOT_BUILT {
            LAST_OF_BUILD
        } else {
            LAST_LINES
        };
        Err(facts.error(output.status, last_lines(&output.stderr, most)))
    }

    fn error(&self, status: u32, words: String) -> ScriptError {
        let owned = |key| self.get(key).map(str::to_owned);
        match status {
            CLOSING => ScriptError::Closing(owned("closing").unwrap_or(words)),
            BUSY => ScriptError::Busy {
                owner: owned("busy"),
                words,
            },
            WRONG_VOLUME => match self.get("problem").and_then(|word| word.parse().ok()) {
                Some(problem) => ScriptError::WrongVolume { problem, words },
                None => self.garbled("problem"),
            },
            NO_IMAGE => ScriptError::Image(words),
            NO_DEVICE => ScriptError::NoDevice(words),
            NO_GPU => ScriptError::NoGpu(words),
            NOT_PULLED => ScriptError::NotPulled(words),
            BAD_MOUNT => ScriptError::Mount(words),
            NOT_BUILT => ScriptError::NotBuilt(words),
            NOT_ON_DRIVE => ScriptError::NotOnDrive(words),
            FULL => ScriptError::Full(words),
            BEGUN => ScriptError::Begun(words),
            status => ScriptError::Failed {
                script: self.script,
                status,
                words,
            },
        }
    }

    /// The last value of `key`; none if there is none or it is empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let (_, value) = self.lines.iter().rev().find(|(name, _)| name == key)?;
        (!value.is_empty()).then_some(value)
    }

    /// Every value of `key`, in order.
    pub(super) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let found = self.lines.iter().filter(move |(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether `key` is `yes`.
    pub(super) fn yes(&self, key: &str) -> bool {
        self.get(key) == Some("yes")
    }

    /// The value of `key`, which must be there and must be a `T`.
    pub(super) fn require<T: FromStr>(&self, key: &'static str) -> Result<T, ScriptError> {
        self.get(key)
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| self.garbled(key))
    }

    /// The value of `key`, which must be a `T` if it is there.
    pub(super) fn optional<T: FromStr>(&self, key: &'static str) -> Result<Option<T>, ScriptError> {
        let value = self.get(key).map(str::parse).transpose();
        value.map_err(|_| self.garbled(key))
    }

    /// How long the steps took (`ms.STEP=milliseconds`), in order.
    pub(super) fn timings(&self) -> Vec<(String, Duration)> {
        self.lines
            .iter()
            .filter_map(|(key, value)| {
                let step = key.strip_prefix("ms.")?;
                Some((step.to_owned(), Duration::from_millis(value.parse().ok()?)))
            })
            .collect()
    }

    pub(super) fn garbled(&self, missing: &'static str) -> ScriptError {
        ScriptError::Garbled {
            script: self.script,
            missing,
        }
    }
}

fn last_lines(stderr: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(most)..].join("\n");
    if last.is_empty() {
        "it printed nothing".to_owned()
    } else {
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(status: u32, stdout: &str, stderr: &str) -> Output {
        Output {
            status,
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    #[test]
    fn facts_are_read_and_other_lines_passed_over() {
        let printed = "motd\nxdrive: volume=vol-1\nxdrive: source=a=b c\nxdrive: ms.commit=12\nxdrive: recorded=\n";
        let facts = Facts::read("drive mount", &output(0, printed, ""), &[]).unwrap();
        assert_eq!(facts.get("volume"), Some("vol-1"));
        assert_eq!(facts.get("source"), Some("a=b c"));
        assert_eq!(facts.get("recorded"), None);
        assert_eq!(
            facts.timings(),
            [("commit".to_owned(), Duration::from_millis(12))]
        );
        assert!(matches!(
            facts.require::<u64>("generation"),
            Err(ScriptError::Garbled {
                missing: "generation",
                ..
            })
        ));
    }

    #[test]
    fn exit_codes_are_those_of_the_scripts() {
        let prelude = include_str!("../../shell/host/prelude");
        let pull = include_str!("../../shell/host/pull.py").replace(" = ", "=");
        let keeper = include_str!("../../shell/host/keeper.py").replace(" = ", "=");
        let words: Vec<&str> = prelude.split_whitespace().collect();
        for (name, code) in [
            ("CLOSING", CLOSING),
            ("BUSY", BUSY),
            ("WRONG_VOLUME", WRONG_VOLUME),
            ("NO_IMAGE", NO_IMAGE),
            ("NO_DEVICE", NO_DEVICE),
            ("STILL_MOUNTED", STILL_MOUNTED),
            ("NO_GPU", NO_GPU),
            ("BAD_MOUNT", BAD_MOUNT),
            ("NOT_BUILT", NOT_BUILT),
            ("NOT_ON_DRIVE", NOT_ON_DRIVE),
            ("FULL", FULL),
        ] {
            assert!(words.contains(&format!("{name}={code}").as_str()), "{name}");
        }
        assert!(pull.contains(&format!("\nNOT_PULLED={NOT_PULLED}\n")));
        assert!(keeper.contains(&format!("\nCLOSING={CLOSING} ")));
    }

    #[test]
    fn every_exit_code_has_its_error() {
        let error = |status, stdout: &str| {
            Facts::read("x", &output(status, stdout, "one\n\ntwo\n"), &[]).unwrap_err()
        };
        assert!(
            matches!(error(80, "xdrive: closing=lease\n"), ScriptError::Closing(why) if why == "lease")
        );
        assert!(
            matches!(error(81, "xdrive: busy=me\n"), ScriptError::Busy { owner: Some(o), .. } if o == "me")
        );
        assert!(matches!(
            error(81, ""),
            ScriptError::Busy { owner: None, .. }
        ));
        for (word, expected) in [
            ("halfmade", VolumeProblem::HalfMade),
            ("foreign", VolumeProblem::Foreign),
            ("damaged", VolumeProblem::Damaged),
            ("newer", VolumeProblem::Newer),
        ] {
            let facts = format!("xdrive: problem={word}\n");
            assert!(matches!(
                error(82, &facts),
                ScriptError::WrongVolume { problem, .. } if problem == expected
            ));
        }
        assert!(matches!(
            error(82, "xdrive: problem=new-kind\n"),
            ScriptError::Garbled { .. }
        ));
        assert!(matches!(error(83, ""), ScriptError::Image(words) if words == "one\ntwo"));
        assert!(matches!(error(84, ""), ScriptError::NoDevice(_)));
        assert!(matches!(error(86, ""), ScriptError::NoGpu(_)));
        assert!(matches!(error(87, ""), ScriptError::NotPulled(_)));
        assert!(matches!(error(88, ""), ScriptError::Mount(_)));
        assert!(matches!(error(89, ""), ScriptError::NotBuilt(_)));
        assert!(matches!(error(90, ""), ScriptError::NotOnDrive(_)));
        assert!(matches!(error(92, ""), ScriptError::Full(_)));
        assert!(matches!(error(93, ""), ScriptError::Begun(_)));
        assert!(matches!(
            error(1, ""),
            ScriptError::Failed { status: 1, .. }
        ));
        assert!(Facts::read("x", &output(85, "", ""), &[STILL_MOUNTED]).is_ok());
    }

    #[test]
    fn an_error_repeats_only_the_last_words() {
        let long = ["one", "two", "three", "four", "five", "six"].join("\n");
        assert!(last_lines(long.as_bytes(), 5).starts_with("two\n"));
        assert_eq!(last_lines(b"", 5), "it printed nothing");
    }
}
