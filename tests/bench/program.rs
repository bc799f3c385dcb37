//! xdrive's side: the program, started as anybody would start it.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::process::Command;

use super::parts::{Session, command, stamps};
use super::site::{Site, now};

/// How long a session that was told to end may take to save.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program, and the session of it that runs.
pub(crate) struct Program {
    path: PathBuf,
    dir: PathBuf,
    /// `XDRIVE_CACHE`.
    cache: PathBuf,
    running: Mutex<Option<Pid>>,
}

impl Program {
    pub(crate) fn new(site: &Site) -> anyhow::Result<Self> {
        let dir = site.dir.join("xdrive");
        std::fs::create_dir_all(&dir)?;
        let cache = site.cache.parent().context("no cache")?;
        Ok(Self {
            path: site.program.clone(),
            cache: cache.to_owned(),
            running: Mutex::new(None),
            dir,
        })
    }

    /// One session of `drive`.
    pub(crate) async fn session(&self, drive: &str, change: &str) -> anyhow::Result<Session> {
        let began = now()?;
        let child = Command::new(&self.path)
            .arg("--local")
            .arg("--local-dir")
            .arg(&self.dir)
            .args(["connect", drive, "--"])
            .args(command(change))
            .env("XDRIVE_CACHE", &self.cache)
            .env("XDG_CONFIG_HOME", self.dir.join("config"))
            .env("XDG_DATA_HOME", self.dir.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting xdrive")?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = pid;
        let output = child.wait_with_output().await?;
        let ended = now()?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        ensure!(
            output.status.success(),
            "xdrive: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
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

    /// Ends the session that was cut off, if one was: told to, it saves by itself.
    pub(crate) async fn end(&self) -> anyhow::Result<()> {
        let running = *self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pid) = running else {
            return Ok(());
        };
        // It may have ended meanwhile, which is as good.
        let _ = kill_process(pid, Signal::TERM);
        let gone = async {
            while test_kill_process(pid).is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone)
            .await
            .context("xdrive does not end")
    }
}
