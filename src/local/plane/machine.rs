//! Instances as their owner sees them: launched, powered off, looked at, let in.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::folder::Folder;
use super::order::Order;
use super::process::Process;
use super::program::{cannot_start, program};
use super::supervisor::Report;
use super::{Machine, PlaneError, RealPlane, Up, console, images, metadata, sent_keys, sweep};
use crate::clock::Clock;

impl RealPlane {
    pub(super) fn folder(&self, instance: &str) -> Folder {
        Folder::new(&self.dir, instance)
    }

    pub(super) fn launch(&self, machine: &Machine) -> Result<Up, PlaneError> {
        images::tree(&self.cache, &machine.image)?;
        let folder = self.folder(&machine.instance);
        folder.create(machine)?;
        let up = self.start_supervisor(&folder, &machine.instance);
        if up.is_err() {
            self.clear(&machine.instance)?;
        }
        up
    }

    /// Starts a supervisor that is nobody's child, and waits for what it reports.
    fn start_supervisor(&self, folder: &Folder, instance: &str) -> Result<Up, PlaneError> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(folder.log())
            .context("opening the supervisor's log")?;
        let mut child = program("setsid")
            .arg("--fork")
            .arg(&self.program)
            .args(["local", "supervise"])
            .args([&self.dir, &self.cache])
            .arg(instance)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| cannot_start("setsid", error))?;
        let stdout = child
            .stdout
            .take()
            .context("the supervisor has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .context("reading from the supervisor")?;
        // `setsid` itself ended when it had forked.
        child.wait().context("waiting for setsid")?;
        match serde_json::from_str(&line) {
            Ok(Report::Up(up)) => Ok(up),
            Ok(Report::Missing(text)) => Err(PlaneError::Missing(text)),
            Ok(Report::Failed(text)) => Err(anyhow!("{text}{}", last_words(folder)).into()),
            Err(_) => {
                Err(anyhow!("the supervisor ended without a word{}", last_words(folder)).into())
            }
        }
    }

    pub(super) fn power_off(&self, instance: &str, grace: Duration) -> Result<(), PlaneError> {
        self.order(instance, Order::PowerOff { grace })
    }

    pub(super) fn reboot(&self, instance: &str, grace: Duration) -> Result<(), PlaneError> {
        self.order(instance, Order::Reboot { grace })
    }

    /// The clock first: a notice that nothing follows would be worse than none.
    pub(super) fn interrupt(
        &self,
        instance: &str,
        at: Timestamp,
        left: Duration,
    ) -> Result<(), PlaneError> {
        self.order(instance, Order::Cut { after: left })?;
        Ok(metadata::announce_interruption(&self.folder(instance), at)?)
    }

    pub(super) fn recommend_rebalance(
        &self,
        instance: &str,
        noticed: Timestamp,
    ) -> Result<(), PlaneError> {
        // Nobody is there to read it when it is off.
        self.folder(instance).supervised()?;
        Ok(metadata::recommend_rebalance(
            &self.folder(instance),
            noticed,
        )?)
    }

    /// Gives its supervisor an order.
    pub(super) fn order(&self, instance: &str, order: Order) -> Result<(), PlaneError> {
        let control = self.folder(instance).control();
        // Without a reader, opening does not wait: it fails.
        let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        fs::File::options()
            .write(true)
            .custom_flags(nonblock)
            .open(control)
            .and_then(|mut control| control.write_all(order.to_string().as_bytes()))
            .map_err(|error| {
                match error
                    .raw_os_error()
                    .map(rustix::io::Errno::from_raw_os_error)
                {
                    Some(rustix::io::Errno::NXIO | rustix::io::Errno::NOENT) => PlaneError::Gone,
                    _ => anyhow::Error::new(error)
                        .context(format!("giving an order to {instance}"))
                        .into(),
                }
            })
    }

    pub(super) fn clear(&self, instance: &str) -> Result<(), PlaneError> {
        sweep::clear(&self.dir, &self.folder(instance))
    }

    pub(super) fn console(&self, instance: &str) -> Result<Vec<u8>, PlaneError> {
        Ok(console::last(&self.folder(instance).console())?)
    }

    pub(super) fn send_ssh_key(
        &self,
        instance: &str,
        user: &str,
        key: &str,
    ) -> Result<(), PlaneError> {
        let name = !user.is_empty() && !user.starts_with(['.', '-']);
        if !name || user.contains(['/', '\n', '\0']) || key.contains(['\n', '\0']) {
            return Err(anyhow!("{user:?} with {key:?} cannot be let in").into());
        }
        let folder = self.folder(instance);
        folder.supervised()?;
        sent_keys::add(&folder.metadata(), user, key, Clock::system().boot())
            .with_context(|| format!("letting {user} into {instance}"))?;
        Ok(())
    }
}

/// The root directory of an instance, seen from outside.
pub(super) fn root_of(init: Process) -> Result<OwnedFd, PlaneError> {
    let path = format!("/proc/{}/root", init.pid);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(root) => Ok(root),
        Err(rustix::io::Errno::NOENT) => Err(PlaneError::Gone),
        Err(error) => Err(anyhow::Error::new(error)
            .context(format!("opening {path}"))
            .into()),
    }
}

/// Opens a path below `root`, which belongs to an instance: whatever links it made there, none
/// leads out of it (openat2(2), `RESOLVE_IN_ROOT`).
pub(super) fn open_inside(
    root: &OwnedFd,
    path: &str,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) {
        Mode::from_raw_mode(0o644)
    } else {
        Mode::empty()
    };
    openat2(root, path, flags | OFlags::CLOEXEC, mode, resolve)
}

/// What the supervisor, or a program it ran, said last.
pub(super) fn last_words(folder: &Folder) -> String {
    let log = fs::read_to_string(folder.log()).unwrap_or_default();
    let mut lines: Vec<&str> = log.lines().rev().take(5).collect();
    // Each on a line of its own, below the error.
    lines.push("");
    lines.reverse();
    lines.join("\n  ")
}
