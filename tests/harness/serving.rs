//! `xdrive local serve`, as a process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xdrive::local::plane::Plane as _;

use crate::cloud::plane;
use crate::home::{cache, program};

/// A served EC2; killed when dropped.
pub struct Serving {
    dir: TempDir,
    child: Child,
    pub url: String,
    /// Whether it has machines and disks.
    real: bool,
}

impl Serving {
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
        let mut child = xdrive(dir.path(), &["local", "serve", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut url).unwrap();
        Self {
            dir,
            child,
            url: url.trim().to_owned(),
            real: plane == "real",
        }
    }

    /// The output of `xdrive local env`.
    pub fn environment(&self) -> Output {
        xdrive(self.dir.path(), &["local", "env"]).output().unwrap()
    }

    /// Its state directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Sends it `signal` and waits for its end.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.real {
            let plane = plane(self.dir.path());
            if let Err(error) = plane.sweep(&[], &[], &[]) {
                eprintln!("cannot clean up: {error}");
            }
        }
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
