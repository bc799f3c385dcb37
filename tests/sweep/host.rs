//! The running host of a site, seen from outside: without xdrive, and without a network.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::site::Site;

/// An instance that runs.
#[derive(Debug)]
pub(crate) struct Host {
    /// The host's first process.
    pid: u64,
}

impl Host {
    /// The only host; an error if there are none or several.
    pub(crate) fn find(site: &Site) -> anyhow::Result<Self> {
        let mut hosts = Vec::new();
        for instance in fs::read_dir(site.dir().join("instances"))? {
            let Ok(text) = fs::read_to_string(instance?.path().join("init.json")) else {
                continue;
            };
            let record: serde_json::Value = serde_json::from_str(&text)?;
            let pid = record["pid"].as_u64().context("no pid")?;
            if fs::exists(format!("/proc/{pid}/root/v1"))? {
                hosts.push(Self { pid });
            }
        }
        ensure!(hosts.len() < 2, "several hosts are up: {hosts:?}");
        hosts.pop().context("no host is up")
    }

    /// The id of its first process.
    pub(crate) fn init(&self) -> String {
        self.pid.to_string()
    }

    /// Runs `script` there as root; returns its output.
    pub(crate) fn run(&self, script: &str) -> anyhow::Result<String> {
        let output = Command::new("nsenter")
            .args(["--target", &self.init()])
            .args(["--mount", "--pid", "--net", "sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .context("nsenter")?;
        // A host that powers off ends the script as well.
        ensure!(
            output.status.success() || output.status.code().is_none(),
            "{script}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
