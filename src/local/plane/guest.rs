//! An instance's processes: everything below its process 1, in namespaces of their own.
//!
//! The chain is supervisor → `unshare` (killed with the supervisor) → process 1 (killed with
//! `unshare`) → all others (killed with process 1). The set-up inside the namespaces is
//! `shell/local/boot.sh`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::PlaneError;
use super::cgroup::Cgroups;
use super::console::Console;
use super::folder::Folder;
use super::network::Network;
use super::process::Process;
use super::program::{PATH, cannot_start, program, run};
use crate::catalog::Hypervisor;

const BOOT: &str = include_str!("../scripts/boot.sh");
/// From the start to systemd's; it takes some 50 ms.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running instance.
#[derive(Debug)]
pub(super) struct Guest {
    child: Child,
    /// Process 1 of the guest.
    pub init: Process,
}

impl Guest {
    /// Starts the instance's process 1 and waits until its root file system is in place.
    ///
    /// Must be called on the thread that lives longest: the kernel ends the instance when the
    /// *thread* that started it ends (prctl(2), `PR_SET_PDEATHSIG`).
    pub(super) async fn start(
        folder: &Folder,
        cgroups: &Cgroups,
        console: &Console,
    ) -> Result<Self, PlaneError> {
        let hypervisor = Hypervisor::for_type(&folder.machine()?.instance_type);
        let mut command = tokio::process::Command::from(program("setpriv"));
        command
            .args(["--pdeathsig", "KILL", "sh", "-c", BOOT, "boot", "enter"])
            .arg(folder.path())
            .arg(folder.name())
            .arg(cgroups.list())
            .arg(console.device())
            .arg(hypervisor.root_disk())
            // The caller's environment, which may hold secrets, is not passed on.
            .env_clear()
            .env("PATH", PATH)
            .env("script", BOOT)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| cannot_start("setpriv", error))?;
        let stdout = child
            .stdout
            .take()
            .context("the boot script has no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(TIMEOUT, until_up(&mut lines)).await {
            Ok(Ok(init)) => Ok(Self { child, init }),
            Ok(Err(error)) => {
                let status = child.wait().await.context("waiting for the boot script")?;
                Err(error.context(format!("the boot script: {status}")).into())
            }
            Err(_) => Err(anyhow!("the boot script is not done after {TIMEOUT:?}").into()),
        }
    }

    /// Waits until it has ended.
    pub(super) async fn wait_for_end(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks its systemd to power off (systemd(1), `SIGRTMIN+4`). Before systemd has installed its
    /// handlers the kernel drops the signal: ask again.
    pub(super) fn ask_to_power_off(&self) -> Result<(), PlaneError> {
        self.signal("RTMIN+4")
    }

    /// Asks its systemd to reboot (systemd(1), `SIGRTMIN+5`), under the same conditions.
    pub(super) fn ask_to_reboot(&self) -> Result<(), PlaneError> {
        self.signal("RTMIN+5")
    }

    fn signal(&self, signal: &str) -> Result<(), PlaneError> {
        if self.init.is_alive() {
            run("kill", ["-s", signal, &self.init.pid.to_string()])?;
        }
        Ok(())
    }
}

/// Reads the boot script's reports, until systemd is about to start.
async fn until_up(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<Process> {
    let mut init = None;
    while let Some(line) = lines
        .next_line()
        .await
        .context("reading from the boot script")?
    {
        match line.split_once(' ') {
            Some(("pid", pid)) => init = Some(Process::now(pid.parse()?)?),
            _ if line == "up" => return init.context("the boot script did not say its number"),
            _ => return Err(anyhow!("the boot script says {line:?}")),
        }
    }
    Err(anyhow!("it ended before systemd started"))
}

/// Whether it ended by a reboot: reboot(2) with RESTART in a pid namespace ends it by `SIGHUP`.
pub(super) fn asks_for_reboot(status: ExitStatus) -> bool {
    status.signal() == Some(1)
}

/// How an instance ended, for the log.
pub(super) fn ending(status: ExitStatus) -> String {
    match status.signal() {
        // The kernel's word for reboot(2) with POWER_OFF or HALT in a pid namespace.
        Some(2) => "powered off".to_owned(),
        Some(1) => "rebooted".to_owned(),
        Some(9) => "killed".to_owned(),
        _ => status.to_string(),
    }
}

/// Writes the files that differ by instance into its root file system, before it is mounted.
pub(super) fn personalize(
    folder: &Folder,
    instance: &str,
    network: &Network,
) -> anyhow::Result<()> {
    use sha2::{Digest as _, Sha256};

    let host_name = super::metadata::host_name(network);
    let id = hex::encode(Sha256::digest(instance));
    let etc = folder.upper().join("etc");
    let files = [
        ("hostname", format!("{host_name}\n")),
        (
            "hosts",
            format!("127.0.0.1 localhost\n127.0.1.1 {host_name}\n::1 localhost\n"),
        ),
        // No name server is reachable, and waiting for one blocks for long.
        ("resolv.conf", "nameserver 127.0.0.1\n".to_owned()),
        ("machine-id", format!("{}\n", id.get(..32).unwrap_or(&id))),
    ];
    for (name, content) in files {
        fs::write(etc.join(name), content).with_context(|| format!("writing /etc/{name}"))?;
    }
    Ok(())
}
