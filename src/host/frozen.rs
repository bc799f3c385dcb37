//! What became of the commands that a close was to freeze, as `shell/host/freeze.py` reports it.

use std::fmt::{self, Display};
use std::time::Duration;

use super::facts::Facts;

/// What a frozen shell's name begins with, before its terminal's.
pub(super) const TERMINAL: &str = "terminal-";

/// A frozen notebook server's name, behind which two dots and its container's may follow.
const NOTEBOOK: &str = "notebook";

/// The words for a program that is frozen by this name.
pub(super) fn called(name: &str) -> String {
    if name.starts_with(TERMINAL) {
        "the shell".to_owned()
    } else if name.starts_with(NOTEBOOK) {
        "the notebook server".to_owned()
    } else {
        format!("run {name}")
    }
}

/// A command that a close was to freeze.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// The run's id; of a shell `terminal-` and its terminal's name, of a notebook server `notebook`.
    pub run: String,
    /// Its memory on the drive; or why it was not frozen, in the host's words.
    pub outcome: Result<Images, String>,
}

/// The memory of a frozen command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// How long it took to write it.
    pub took: Duration,
    /// Its length in bytes.
    pub bytes: u64,
    /// What the command is called.
    pub label: String,
}

impl Frozen {
    /// The commands that a close reports.
    pub(super) fn all(facts: &Facts) -> Vec<Self> {
        let done = facts.all("froze").filter_map(Self::done);
        let failed = facts.all("not_frozen").filter_map(Self::failed);
        done.chain(failed).collect()
    }

    /// Parses `RUN MILLISECONDS BYTES LABEL`.
    pub(super) fn done(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let run = words.next()?.to_owned();
        let images = Images {
            took: Duration::from_millis(words.next()?.parse().ok()?),
            bytes: words.next()?.parse().ok()?,
            label: words.next().unwrap_or_default().to_owned(),
        };
        Some(Self {
            run,
            outcome: Ok(images),
        })
    }

    /// Parses `RUN WHY`.
    pub(super) fn failed(text: &str) -> Option<Self> {
        let (run, why) = text.split_once(' ')?;
        Some(Self {
            run: run.to_owned(),
            outcome: Err(why.to_owned()),
        })
    }
}

impl Display for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(images) => {
                let (label, seconds) = (&images.label, images.took.as_secs_f64());
                let mib = images.bytes.div_ceil(1 << 20);
                write!(f, "froze {label} ({mib} MiB) in {seconds:.1} s")
            }
            Err(why) => write!(f, "{} was not frozen: {why}", called(&self.run)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_command_is_parsed_and_what_is_none_is_not() {
        let frozen = Frozen::done("1f 1303 317320260 python3 -u train.py").unwrap();
        assert_eq!(
            frozen.to_string(),
            "froze python3 -u train.py (303 MiB) in 1.3 s"
        );
        let shell = Frozen::failed("terminal-1f..gpu no room").unwrap();
        assert_eq!(shell.to_string(), "the shell was not frozen: no room");
        let notebook = Frozen::failed("notebook..gpu no room").unwrap();
        assert_eq!(
            notebook.to_string(),
            "the notebook server was not frozen: no room"
        );
        let failed = Frozen::failed("1f no room").unwrap();
        assert_eq!(failed.to_string(), "run 1f was not frozen: no room");
        for text in ["", "1f", "1f 1", "1f 1 x", "1f -1 2 x"] {
            assert_eq!(Frozen::done(text), None, "{text}");
        }
        assert_eq!(Frozen::failed("1f"), None);
    }
}
