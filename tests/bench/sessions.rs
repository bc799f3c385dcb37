//! The sessions of both sides in the EC2 with AWS's delays: xdrive's, and the script's.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use portable_pty::CommandBuilder;
use serde_json::Value;

use super::folder::{DRIVE, Folder, NAME};
use super::terminal::{Sat, sit};
use harness::program;

/// The times of one session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// From Enter to the prompt.
    pub(crate) connect: Duration,
    /// From `exit` to the instance shutting down.
    pub(crate) terminating: Duration,
    /// From `exit` to the end of the program: saved, and nothing but the snapshot left.
    pub(crate) saved: Duration,
}

impl Folder {
    /// A session of xdrive.
    pub(crate) async fn xdrive(&self, top: &Path) -> anyhow::Result<Took> {
        let program = program();
        let program = program.to_str().context("the program's path is no text")?;
        let words = [program, "--local", "connect", DRIVE];
        self.session(top, words.map(str::to_owned), &[]).await
    }

    /// A session of the script, from the drive as it was made.
    pub(crate) async fn by_hand(&self, top: &Path) -> anyhow::Result<Took> {
        self.session(top, self.script()?, &self.pointers).await
    }

    async fn session(
        &self,
        top: &Path,
        words: [String; 4],
        more: &[(String, String)],
    ) -> anyhow::Result<Took> {
        let mut command = CommandBuilder::new(&words[0]);
        command.env_clear();
        for (name, value) in self.environment().iter().chain(more) {
            command.env(name, value);
        }
        command.args(&words[1..]);
        let Sat { connect, left, end } = sit(command).await?;
        Ok(Took {
            connect,
            terminating: last_termination(top)?.saturating_sub(left),
            saved: end,
        })
    }
}

/// When the last instance began to shut down, since 1970, by EC2's record.
fn last_termination(top: &Path) -> anyhow::Result<Duration> {
    let text = std::fs::read(top.join(NAME).join("state.json"))?;
    let world: Value = serde_json::from_slice(&text)?;
    let instances = world["instances"].as_object().context("no instances")?;
    let mut began = Vec::new();
    for instance in instances.values() {
        let since = instance["termination"]["since"].as_str();
        let since = since.context("an instance that goes on")?;
        began.push(since.parse::<Timestamp>()?);
    }
    let last = began.into_iter().max().context("no instance")?;
    Ok(last.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs())
}
