//! The order of a command that is begun again where its host was lost, and how many tries have begun.
//! The other side is `shell/host/tries.py`, which keeps both on the drive.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Host;
use crate::host::bundle::python;
use crate::host::container::CommandId;
use crate::host::facts::{Facts, ScriptError};
use crate::quote::quote;

/// The version of the orders that this xdrive writes, and the last that it reads.
const VERSION: u32 = 1;

/// The order by which any computer begins the next try of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedCommand {
    version: u32,
    /// The command and its arguments.
    pub words: Vec<String>,
    /// How long it may take to end when its instance is taken, in seconds.
    notice: u64,
    /// How many bytes of each of its outputs are kept.
    pub kept: u64,
    /// How often it may be begun again.
    pub tries: u32,
}

/// What is kept of a command's tries.
#[derive(Debug, PartialEq, Eq)]
pub struct Tries {
    /// The order; none if there is none, or a newer xdrive wrote it.
    pub order: Option<TriedCommand>,
    /// The number of the last try that has begun; 0 if none has.
    pub begun: u32,
}

impl TriedCommand {
    /// The order of a command with these `words`.
    #[must_use]
    pub fn new(words: &[String], notice: Duration, kept: u64, tries: u32) -> Self {
        Self {
            version: VERSION,
            words: words.to_vec(),
            notice: notice.as_secs(),
            kept,
            tries,
        }
    }

    /// How long the command may take to end when its instance is taken.
    #[must_use]
    pub fn notice(&self) -> Duration {
        Duration::from_secs(self.notice)
    }

    /// Parses an order; none if it is of a newer version, or no order.
    fn parse(line: &str) -> Option<Self> {
        let order: Self = serde_json::from_str(line).ok()?;
        (order.version <= VERSION).then_some(order)
    }
}

impl Host {
    /// Keeps the order of the command `id` on the drive.
    pub async fn keep_order(
        &self,
        id: &CommandId,
        order: &TriedCommand,
    ) -> Result<(), ScriptError> {
        const SCRIPT: &str = "tries.py order";
        let command = format!("exec {} {}", python(SCRIPT), quote(id.as_str()));
        let line = serde_json::to_vec(order).unwrap_or_default();
        let output = self.ssh.run(&command, &line).await?;
        Facts::read(SCRIPT, &output, &[]).map(drop)
    }

    /// What the drive has of the tries of the command `id`.
    pub async fn tries(&self, id: &CommandId) -> Result<Tries, ScriptError> {
        const SCRIPT: &str = "tries.py ordered";
        let output = self
            .run_python(&format!("{SCRIPT} {}", quote(id.as_str())))
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(Tries {
            order: facts.get("order").and_then(TriedCommand::parse),
            begun: facts.require("begun")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written_and_a_newer_one_is_none() {
        let words = ["sh", "-c", "echo 'a'; echo \"b\"\n"].map(str::to_owned);
        let order = TriedCommand::new(&words, Duration::from_secs(45), 1 << 20, 1000);
        let line = serde_json::to_string(&order).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(TriedCommand::parse(&line), Some(order.clone()));
        assert_eq!(order.notice(), Duration::from_secs(45));
        let newer = line.replace("\"version\":1", "\"version\":2");
        assert_ne!(newer, line);
        assert_eq!(TriedCommand::parse(&newer), None);
        assert_eq!(TriedCommand::parse("{}"), None);
    }
}
