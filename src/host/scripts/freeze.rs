//! The calls that freeze commands, and have them go on: see `shell/host/freeze.py`.

use std::fmt::{self, Display};
use std::time::Duration;

use tokio::io::AsyncRead;

use super::{Host, container_input};
use crate::host::bundle::python;
use crate::host::facts::{Facts, ScriptError};
use crate::host::frozen::{TERMINAL, called};
use crate::ids::ContainerName;
use crate::quote::quote;

/// Whether commands can be frozen on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freezes {
    /// They can: it was tried.
    Yes,
    /// It has no criu.
    NoCriu,
    /// They cannot, for this reason.
    No(String),
}

/// What became of a command that was frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thawed {
    /// As [`Frozen::run`](crate::host::Frozen::run).
    pub run: String,
    /// How long it took until it went on, and what it is called; or why it does not.
    pub outcome: Result<(Duration, String), NotThawed>,
}

/// Why something that was frozen does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotThawed {
    /// Not on this host, or not yet: it stays frozen.
    Here(String),
    /// Nowhere any more.
    Ever(String),
}

impl Host {
    /// Unpacks criu on this host, from its `archive`.
    pub async fn load_criu(
        &self,
        archive: impl AsyncRead + Unpin + Send,
    ) -> Result<(), ScriptError> {
        const SCRIPT: &str = "freeze.py load";
        let command = format!("exec {}", python(SCRIPT));
        let output = self.ssh.run_named(SCRIPT, &command, archive).await?;
        Facts::read(SCRIPT, &output, &[]).map(drop)
    }

    /// Whether criu is on this host.
    pub async fn has_criu(&self) -> Result<bool, ScriptError> {
        const SCRIPT: &str = "freeze.py here";
        let output = self.run_python(SCRIPT).await?;
        Ok(Facts::read(SCRIPT, &output, &[])?.yes("criu"))
    }

    /// Whether commands in a container, the main one unless it has a `name`, can be frozen here.
    pub async fn freezes(&self, name: Option<&ContainerName>) -> Result<Freezes, ScriptError> {
        const SCRIPT: &str = "freeze.py check";
        let (_, named) = container_input(name);
        let output = self
            .run_python(&format!("{SCRIPT} {}", quote(named)))
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        if !facts.yes("criu") {
            return Ok(Freezes::NoCriu);
        }
        Ok(match facts.require::<String>("freezes")?.as_str() {
            "yes" => Freezes::Yes,
            why => Freezes::No(why.to_owned()),
        })
    }

    /// Has the commands and shells go on that are frozen on the drive and whose containers run, each once.
    pub async fn thaw(&self) -> Result<Vec<Thawed>, ScriptError> {
        let mut all = self.thawed("command.py thaw").await?;
        all.extend(self.thawed("terminal.py thaw").await?);
        Ok(all)
    }

    pub(super) async fn thawed(&self, script: &'static str) -> Result<Vec<Thawed>, ScriptError> {
        let output = self.run_python(script).await?;
        let facts = Facts::read(script, &output, &[])?;
        let done = facts.all("thawed").filter_map(Thawed::done);
        let stays = facts
            .all("stays")
            .map(|it| Thawed::not(it, NotThawed::Here));
        let left = facts.all("left").map(|it| Thawed::not(it, NotThawed::Ever));
        Ok(done.chain(stays.chain(left).flatten()).collect())
    }

    /// Whether the shells and notebook servers that may be frozen can be, each; if not, the words that say
    /// which, and why.
    pub async fn freezable_shells(&self) -> Result<Vec<Result<(), String>>, ScriptError> {
        const SCRIPT: &str = "freeze.py shells";
        let output = self.run_python(SCRIPT).await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        let said = facts.all("freezes").filter_map(|it| it.split_once(' '));
        let shells = said.map(|(name, words)| match words {
            "yes" => Ok(()),
            why => Err(format!("{} cannot be frozen: {why}", called(name))),
        });
        Ok(shells.collect())
    }
}

impl Thawed {
    /// The name of the terminal, if it is a shell.
    #[must_use]
    pub fn terminal(&self) -> Option<&str> {
        self.run.strip_prefix(TERMINAL)
    }

    /// Parses `RUN SECONDS LABEL`.
    fn done(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let run = words.next()?.to_owned();
        let took = Duration::try_from_secs_f64(words.next()?.parse().ok()?).ok()?;
        let label = words.next().unwrap_or_default().to_owned();
        Some(Self {
            run,
            outcome: Ok((took, label)),
        })
    }

    /// Parses `RUN WHY`.
    fn not(text: &str, kind: impl Fn(String) -> NotThawed) -> Option<Self> {
        let (run, why) = text.split_once(' ')?;
        Some(Self {
            run: run.to_owned(),
            outcome: Err(kind(why.to_owned())),
        })
    }
}

impl Display for Thawed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok((took, label)) => {
                let took = Duration::as_secs_f64(took);
                write!(f, "{label} goes on where it was (in {took:.1} s)")
            }
            Err(NotThawed::Here(why)) => {
                write!(
                    f,
                    "{} stays frozen for a later session: {why}",
                    called(&self.run)
                )
            }
            Err(NotThawed::Ever(why)) => write!(
                f,
                "{} was frozen, and does not go on: {why}",
                called(&self.run)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_frozen_command_is_parsed_and_what_is_none_is_not() {
        let thawed = Thawed::done("1f 0.5 python3 train.py").unwrap();
        let outcome = (Duration::from_millis(500), "python3 train.py".to_owned());
        assert_eq!(thawed.outcome, Ok(outcome));
        let left = Thawed::not("1f criu restore: no room", NotThawed::Ever).unwrap();
        let why = NotThawed::Ever("criu restore: no room".to_owned());
        assert_eq!(left.outcome, Err(why));
        assert_eq!(left.terminal(), None);
        let shell = Thawed::done("terminal-1f..gpu 0.5 the shell").unwrap();
        assert_eq!(shell.terminal(), Some("1f..gpu"));
        for text in ["", "1f", "1f x y", "1f -1 y", "1f 1e300 y"] {
            assert_eq!(Thawed::done(text), None, "{text}");
        }
        assert_eq!(Thawed::not("1f", NotThawed::Here), None);
    }
}
