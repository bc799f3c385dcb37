//! The calls for the orders and tries of commands: see [`crate::host::tries`].

use super::Host;
use crate::host::bundle::python;
use crate::host::container::CommandId;
use crate::host::facts::{Facts, ScriptError};
use crate::host::tries::{TriedCommand, Tries};
use crate::quote::quote;

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

    /// Whether this host has the AWS CLI.
    pub async fn brings_results(&self) -> Result<bool, ScriptError> {
        const SCRIPT: &str = "results.py ready";
        let output = self.run_python(SCRIPT).await?;
        let answer: String = Facts::read(SCRIPT, &output, &[])?.require("results")?;
        Ok(answer == "yes")
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
            failed: facts.require("failed")?,
        })
    }
}
