//! `xdrive local serve`, as a process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};

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
