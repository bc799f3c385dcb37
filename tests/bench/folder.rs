//! The EC2 in a folder with AWS's delays, a drive in it, and what runs the program and scripts there.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;

use harness::bench::parts::open;
use harness::bench::program::succeeded;
use harness::home::{PATH, environment};
use harness::program;
use harness::server::ServerProcess;

/// The name of the folder's state directory, below the benchmark's.
pub(crate) const NAME: &str = "aws";

/// The drive that both sides know.
pub(crate) const DRIVE: &str = "bench";

/// The script.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/by-hand.sh");

pub(crate) struct Folder {
    environment: Vec<(String, String)>,
    /// The snapshot that the script begins with: the newest.
    snapshot: String,
    key: PathBuf,
    /// The server of the same EC2 on a port, until this is dropped.
    _server: ServerProcess,
    /// The AWS CLI's environment, besides [`Folder::environment`].
    pub(crate) pointers: Vec<(String, String)>,
}

impl Folder {
    /// An EC2 with AWS's delays, and a drive that these sessions left, without delays: the words of
    /// each behind `connect DRIVE`.
    pub(crate) async fn with_a_drive(
        top: &Path,
        sessions: &[&[&str]],
        settings: &str,
    ) -> anyhow::Result<Self> {
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
        for words in sessions {
            let mut session = run(&xdrive);
            session.args(["--local", "connect", DRIVE]).args(*words);
            output_of(&mut session).await?;
        }
        let snapshots = open(&dir)?.snapshots(&DRIVE.parse()?).await?;
        let newest = snapshots.iter().max_by_key(|snapshot| snapshot.started);
        let snapshot = newest.context("no snapshot")?.id.to_string();
        let settings = format!("enforce-groups = false\n{settings}");
        std::fs::write(dir.join("settings.toml"), settings)?;

        let mut serve = run(&xdrive).into_std();
        let server = ServerProcess::start(serve.args(["local", "serve"]))?;
        let point = "eval \"$(\"$0\" local env)\" && env";
        let pointers = output_of(run(sh).args(["-c", point]).arg(&xdrive)).await?;
        let pointers = pointers.lines().filter_map(|line| line.split_once('='));
        let pointers = pointers
            .filter(|(name, _)| name.starts_with("AWS_"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Ok(Self {
            environment: environment.into(),
            snapshot,
            key,
            _server: server,
            pointers,
        })
    }

    /// The words of the script, from the drive as it was made.
    pub(crate) fn script(&self) -> anyhow::Result<[String; 4]> {
        let key = self.key.to_str().context("the key's path is no text")?;
        Ok([
            SCRIPT.to_owned(),
            self.snapshot.clone(),
            format!("xdrive-{DRIVE}"),
            key.to_owned(),
        ])
    }

    /// The environment of the program, and of the script.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
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
