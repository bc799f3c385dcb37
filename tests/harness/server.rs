//! `xdrive local serve`, as a process, and with a folder of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xdrive::local::plane::Plane as _;

use crate::cloud::plane;
use crate::home::{cache, program};

/// A running `xdrive local serve`; it is killed when this is dropped.
pub struct ServerProcess {
    child: Child,
    url: String,
}

impl ServerProcess {
    /// Starts it by `command`, and waits until it listens.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.stdout(Stdio::piped()).spawn()?;
        let url = String::new();
        let mut server = Self { child, url };
        let stdout = server.child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(!line.is_empty(), "{command:?} does not listen");
        line.trim().clone_into(&mut server.url);
        Ok(server)
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it `signal` and waits for its end.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An EC2 in a folder of its own, served by a process.
pub struct ServedFolder {
    /// First, so that it has ended before its directory is cleared.
    server: ServerProcess,
    state: State,
}

/// The state directory of a served EC2, which is cleared and removed when dropped.
struct State {
    dir: TempDir,
    /// Whether it has machines and disks.
    real: bool,
}

impl Drop for State {
    fn drop(&mut self) {
        if self.real {
            let plane = plane(self.dir.path());
            if let Err(error) = plane.sweep(&[], &[], &[]) {
                eprintln!("cannot clean up: {error}");
            }
        }
    }
}

impl ServedFolder {
    /// Starts a paper one on an empty folder, and waits until it listens.
    pub fn start() -> Self {
        Self::on("paper", "")
    }

    /// Starts one with machines and disks.
    pub fn start_real() -> Self {
        Self::on("real", "")
    }

    /// Starts one with machines and disks, and these settings.
    pub fn start_real_with(settings: &str) -> Self {
        Self::on("real", settings)
    }

    /// Starts a paper one with these settings.
    pub fn start_with(settings: &str) -> Self {
        Self::on("paper", settings)
    }

    fn on(plane: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = format!("plane = {plane:?}\n{more}");
        std::fs::write(dir.path().join("settings.toml"), settings).unwrap();
        let state = State {
            dir,
            real: plane == "real",
        };
        let mut serve = xdrive(state.dir.path(), &["local", "serve", "--port", "0"]);
        let server = ServerProcess::start(&mut serve).unwrap();
        Self { server, state }
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// The output of `xdrive local env`.
    pub fn environment(&self) -> Output {
        xdrive(self.dir(), &["local", "env"]).output().unwrap()
    }

    /// The server's state directory.
    pub fn dir(&self) -> &Path {
        self.state.dir.path()
    }

    /// Sends it `signal` and waits for its end.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.server.end(signal)
    }
}

fn xdrive(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .env_clear()
        .env("HOME", dir.join("home"))
        .env("XDRIVE_CACHE", cache())
        .arg("--local-dir")
        .arg(dir)
        .args(arguments);
    command
}
