//! The EC2 in a folder with AWS's delays, and the sessions of both sides: xdrive's, and a script's.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use portable_pty::CommandBuilder;
use serde_json::Value;
use tokio::process::Command;
use xdrive::local::{Delays, Preset};

use super::terminal::{Sat, sit};
use harness::bench::program::succeeded;
use harness::home::{PATH, environment};
use harness::program;
use harness::server::ServerProcess;

/// Its state directory, below the benchmark's.
pub(crate) const NAME: &str = "aws";

/// The drive that both sides know.
const DRIVE: &str = "bench";

/// The script.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/by-hand.sh");

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

pub(crate) struct Folder {
    dir: PathBuf,
    environment: Vec<(String, String)>,
    delays: Delays,
    /// The snapshot that the script begins with.
    snapshot: String,
    key: PathBuf,
    /// The same EC2 on a port, until this is dropped.
    _server: ServerProcess,
    /// The AWS CLI's environment.
    pointers: Vec<(String, String)>,
}

impl Folder {
    /// An EC2 with AWS's delays, and a drive that was made without them.
    pub(crate) async fn with_a_drive(top: &Path) -> anyhow::Result<Self> {
        let dir = top.join(NAME);
        let home = top.join("home");
        std::fs::create_dir_all(&home)?;
        let environment = environment(&home, &dir).map(|(name, value)| {
            let value = if name == "PATH" { path() } else { value };
            (name.to_owned(), value)
        });
        let key = home.join("key");
        let generate = ["-q", "-t", "ed25519", "-N", "", "-f"];
        output_of(Command::new("ssh-keygen").args(generate).arg(&key)).await?;
        let run = |program: &Path| {
            let mut command = Command::new(program);
            command.env_clear().envs(environment.clone());
            command
        };
        let (sh, xdrive) = (Path::new("sh"), program());
        output_of(run(sh).args(["-c", "aws --version"]))
            .await
            .context("no AWS CLI: `shell/setup.sh bench` makes one, for XDRIVE_BENCH_AWS")?;
        output_of(run(&xdrive).args(["--local", "connect", DRIVE, "--", "true"])).await?;
        std::fs::write(dir.join("settings.toml"), "delays = \"aws\"\n")?;

        let mut serve = run(&xdrive).into_std();
        let server = ServerProcess::start(serve.args(["local", "serve"]))?;
        let point = "eval \"$(\"$0\" local env)\" && env";
        let pointers = output_of(run(sh).args(["-c", point]).arg(&xdrive)).await?;
        let pointers = pointers.lines().filter_map(|line| line.split_once('='));
        let pointers = pointers
            .filter(|(name, _)| name.starts_with("AWS_"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut folder = Self {
            environment: environment.into(),
            delays: Delays::new(Preset::Aws),
            snapshot: String::new(),
            key,
            _server: server,
            pointers,
            dir,
        };
        let world = folder.world()?;
        let snapshots = world["snapshots"].as_object().context("no snapshots")?;
        ensure!(
            snapshots.len() == 1,
            "one drive, {} snapshots",
            snapshots.len()
        );
        folder.snapshot = snapshots.keys().next().cloned().unwrap_or_default();
        Ok(folder)
    }

    /// Its table of delays.
    pub(crate) fn delays(&self) -> &Delays {
        &self.delays
    }

    /// A session of xdrive.
    pub(crate) async fn xdrive(&self) -> anyhow::Result<Took> {
        let program = program();
        let program = program.to_str().context("the program's path is no text")?;
        let words = [program, "--local", "connect", DRIVE];
        self.session(&words, &[]).await
    }

    /// A session of the script, from the drive as it was made.
    pub(crate) async fn by_hand(&self) -> anyhow::Result<Took> {
        let container = format!("xdrive-{DRIVE}");
        let key = self.key.to_str().context("the key's path is no text")?;
        let words = [SCRIPT, &self.snapshot, &container, key];
        self.session(&words, &self.pointers).await
    }

    async fn session(&self, words: &[&str], more: &[(String, String)]) -> anyhow::Result<Took> {
        let mut command = CommandBuilder::new(words[0]);
        command.env_clear();
        for (name, value) in self.environment.iter().chain(more) {
            command.env(name, value);
        }
        command.args(&words[1..]);
        let Sat { connect, left, end } = sit(command).await?;
        Ok(Took {
            connect,
            terminating: self.last_termination()?.saturating_sub(left),
            saved: end,
        })
    }

    /// When the last instance began to shut down, since 1970, by EC2's record.
    fn last_termination(&self) -> anyhow::Result<Duration> {
        let world = self.world()?;
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

    /// Its record.
    fn world(&self) -> anyhow::Result<Value> {
        let text = std::fs::read(self.dir.join("state.json"))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// Where programs find others: first where the AWS CLI is that `XDRIVE_BENCH_AWS` names.
fn path() -> String {
    let aws = std::env::var_os("XDRIVE_BENCH_AWS").map(PathBuf::from);
    let aws = aws.as_ref().and_then(|aws| aws.parent());
    aws.map_or(PATH.to_owned(), |folder| {
        format!("{}:{PATH}", folder.display())
    })
}

/// Runs `command` and returns its output; its failure is an error with its standard error.
async fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().await?;
    let program = command.as_std().get_program();
    let output = succeeded(output).with_context(|| program.display().to_string())?;
    Ok(String::from_utf8(output.stdout)?)
}
