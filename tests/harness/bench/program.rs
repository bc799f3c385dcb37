//! xdrive's side: the program, started as users start it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::parts::{Session, command, now, open, stamps};
use crate::home::{cache, program};

/// The name of xdrive's state directory, below the benchmark's.
pub const NAME: &str = "xdrive";
/// How long a session may take to save after SIGTERM.
const TIMEOUT: Duration = Duration::from_mins(1);
/// OpenSSH's client.
pub const SSH: &str = "ssh";
/// The ciphers that xdrive offers, in its order. OpenSSH's own begins with one that is a third slower
/// where the CPU has AES.
const CIPHERS: &str = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,\
                       aes256-ctr,aes192-ctr,aes128-ctr";

/// The program, and the session of it that runs.
pub struct Program {
    dir: PathBuf,
    /// The words before a command that run it where the hosts are reached from.
    from: Vec<String>,
    running: Mutex<Option<Pid>>,
}

impl Program {
    /// The program in the directory of a benchmark.
    pub fn new(top: &Path) -> anyhow::Result<Self> {
        Self::within(top, &[])
    }

    /// As [`Program::new`]; `from` are the words before a command that run it in another network.
    pub fn within(top: &Path, from: &[String]) -> anyhow::Result<Self> {
        let dir = top.join(NAME);
        std::fs::create_dir_all(&dir)?;
        Ok(Self {
            running: Mutex::new(None),
            from: from.to_owned(),
            dir,
        })
    }

    /// Runs a session of `drive`.
    pub async fn session(&self, drive: &str, change: &str) -> anyhow::Result<Session> {
        let began = now()?;
        let child = self
            .connect(drive)
            .args(command(change))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting xdrive")?;
        self.runs(child.id());
        let output = child.wait_with_output().await?;
        let ended = now()?;
        self.runs(None);
        let output = succeeded(output).context("xdrive")?;
        if std::env::var_os("XDRIVE_BENCH_VERBOSE").is_some() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        let (first, last) = stamps(&output.stdout)?;
        Ok(Session {
            connect: first.saturating_sub(began),
            save: ended.saturating_sub(last),
            connect_steps: Vec::new(),
            save_steps: Vec::new(),
        })
    }

    /// The command that joins or begins a session of `drive`, without the command in it.
    pub fn connect(&self, drive: &str) -> Command {
        let mut command = self.command();
        command.args(["connect", drive, "--"]);
        command
    }

    /// A command of xdrive's, without its verb.
    pub fn command(&self) -> Command {
        let program = program();
        let mut words = self
            .from
            .iter()
            .map(OsStr::new)
            .chain([program.as_os_str()]);
        // There is the program at least.
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .arg("--local")
            .arg("--local-dir")
            .arg(&self.dir)
            .env("XDRIVE_CACHE", cache())
            .env("XDG_CONFIG_HOME", self.dir.join("config"))
            .env("XDG_DATA_HOME", self.dir.join("data"))
            .stdin(Stdio::null());
        command
    }

    /// Begins a session of `drive` that goes on until its standard input ends; returns when its
    /// command runs.
    pub async fn lead(&self, drive: &str) -> anyhow::Result<Child> {
        let mut child = self
            .connect(drive)
            .args(["sh", "-c", "echo up; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        self.runs(child.id());
        let stdout = child.stdout.take().context("no output")?;
        let up = BufReader::new(stdout).lines().next_line().await?;
        ensure!(up.is_some(), "xdrive: {}", child.wait().await?);
        Ok(child)
    }

    /// Ends it.
    pub async fn leave(&self, mut lead: Child) -> anyhow::Result<()> {
        drop(lead.stdin.take());
        lead.wait().await?;
        self.runs(None);
        Ok(())
    }

    /// OpenSSH to the host of `drive`, with the same key and what xdrive offers, without the command
    /// there.
    pub async fn ssh(&self, drive: &str) -> anyhow::Result<Vec<String>> {
        let ec2 = open(&self.dir)?;
        let instances = ec2.instances(&drive.parse()?).await?;
        let address = instances.iter().find_map(|instance| instance.address);
        let address = address.context("no host")?;
        let key = self.dir.join("config/xdrive/id_ed25519");
        let known = self.dir.join("known_hosts");
        let words = [
            SSH.to_owned(),
            "-F/dev/null".to_owned(),
            "-oBatchMode=yes".to_owned(),
            "-oStrictHostKeyChecking=accept-new".to_owned(),
            "-oLogLevel=ERROR".to_owned(),
            format!("-oCiphers={CIPHERS}"),
            "-oHostKeyAlgorithms=ssh-ed25519".to_owned(),
            format!("-oUserKnownHostsFile={}", known.display()),
            format!("-i{}", key.display()),
            format!("root@{address}"),
        ];
        Ok(self.from.iter().cloned().chain(words).collect())
    }

    /// Records which session runs now.
    fn runs(&self, id: Option<u32>) {
        let pid = id.and_then(|id| Pid::from_raw(id.cast_signed()));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    /// Ends the session that was cut off, if any, by SIGTERM, after which it saves.
    pub async fn end(&self) -> anyhow::Result<()> {
        let running = *self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pid) = running else {
            return Ok(());
        };
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::TERM);
        let gone = async {
            while test_kill_process(pid).is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, gone)
            .await
            .context("xdrive does not end")
    }
}

/// The output of a process that succeeded; a failure is an error with its standard error.
pub fn succeeded(output: Output) -> anyhow::Result<Output> {
    ensure!(
        output.status.success(),
        "{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
