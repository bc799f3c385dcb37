//! Real machines and disks: namespaces, loop devices and files below the state directory.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;

use super::copies::{self, Disks};
use super::folder::Folder;
use super::kept::Kept;
use super::order::Order;
use super::process::Process;
use super::program::{self, MKFS, start_apart};
use super::supervisor::Report;
use super::{Firewall, Image, Machine, Plane, PlaneError, Source, Up};
use super::{
    blocks, console, disk, firewall, images, lazy, loops, metadata, power, sent_keys, shares, sweep,
};
use xdrive_ground::clock::{BootTime, Clock};

/// Namespaces, loop devices and files below the state directory.
#[derive(Debug, Clone)]
pub struct RealPlane {
    /// The state directory.
    pub dir: PathBuf,
    /// The `xdrive` program that supervises instances.
    pub program: PathBuf,
    /// The cache of machine trees and images.
    pub cache: PathBuf,
    reading: Kept,
}

impl RealPlane {
    /// Creates the plane of the state directory `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, program: PathBuf, cache: PathBuf) -> Self {
        Self {
            dir,
            program,
            cache,
            reading: Kept::default(),
        }
    }

    fn folder(&self, instance: &str) -> Folder {
        Folder::new(&self.dir, instance)
    }

    /// Starts a supervisor that is no child of this process, and waits for its report.
    fn start_supervisor(&self, folder: &Folder, instance: &str) -> Result<Up, PlaneError> {
        let words = [
            "supervise".as_ref(),
            self.dir.as_os_str(),
            self.cache.as_os_str(),
            instance.as_ref(),
        ];
        let line = start_apart(&self.program, &words, Stdio::null(), &folder.log())?;
        match serde_json::from_str(&line) {
            Ok(Report::Up(up)) => Ok(up),
            Ok(Report::Missing(text)) => Err(PlaneError::Missing(text)),
            Ok(Report::Failed(text)) => Err(anyhow!("{text}{}", folder.log_tail()).into()),
            Err(_) => {
                Err(anyhow!("the supervisor ended without a word{}", folder.log_tail()).into())
            }
        }
    }

    /// Removes the file of a volume or snapshot; [`PlaneError::Busy`] while it is plugged in.
    fn delete_disk(&self, id: &str) -> Result<(), PlaneError> {
        let Some(disks) = Disks::open_if_any(&self.dir)? else {
            return Ok(());
        };
        let path = disks.path(id);
        if loops::find(&path)?.is_some() {
            return Err(PlaneError::Busy);
        }
        copies::remove(&path)?;
        lazy::forget(&disks, id)
    }
}

impl Plane for RealPlane {
    fn is_real(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), PlaneError> {
        let mkfs = copies::needs_store(&self.dir)?.then_some(MKFS.0);
        program::check(mkfs)
    }

    fn launch(&self, machine: &Machine) -> Result<Up, PlaneError> {
        images::tree(&self.cache, &machine.image)?;
        let folder = self.folder(&machine.instance);
        folder.create(machine)?;
        let up = self.start_supervisor(&folder, &machine.instance);
        if up.is_err() {
            self.clear(&machine.instance)?;
        }
        up
    }

    fn is_up(&self, up: &Up) -> bool {
        Process::from_up(up).is_alive()
    }

    fn has_booted(&self, instance: &str) -> Result<bool, PlaneError> {
        self.folder(instance).has_booted()
    }

    fn power_off(&self, instance: &str, grace: Duration) -> Result<(), PlaneError> {
        Order::PowerOff { grace }.give(&self.dir, instance)
    }

    fn reboot(&self, instance: &str, grace: Duration) -> Result<(), PlaneError> {
        Order::Reboot { grace }.give(&self.dir, instance)
    }

    fn can_interrupt(&self) -> Result<(), PlaneError> {
        power::check()
    }

    /// The power cut is ordered first: a notice without an end would be worse than none.
    fn interrupt(&self, instance: &str, at: Timestamp, left: Duration) -> Result<(), PlaneError> {
        Order::Cut { after: left }.give(&self.dir, instance)?;
        Ok(metadata::announce_interruption(&self.folder(instance), at)?)
    }

    fn recommend_rebalance(&self, instance: &str, noticed: Timestamp) -> Result<(), PlaneError> {
        let folder = self.folder(instance);
        // An instance that is off cannot read it.
        folder.supervised()?;
        Ok(metadata::recommend_rebalance(&folder, noticed)?)
    }

    fn guard(&self, firewall: &Firewall) -> Result<(), PlaneError> {
        firewall::set(firewall)
    }

    fn clear(&self, instance: &str) -> Result<(), PlaneError> {
        sweep::clear(&self.dir, &self.folder(instance))
    }

    fn create_volume(
        &self,
        volume: &str,
        gib: u32,
        source: Option<Source<'_>>,
    ) -> Result<(), PlaneError> {
        let disks = Disks::open(&self.dir)?;
        let file = source
            .map(|source| disks.existing(source.snapshot))
            .transpose()?;
        if let Some(source) = source {
            lazy::prepare(&disks, volume, &source)?;
        }
        let made = disks.create(volume, file.as_deref(), Some(u64::from(gib) << 30));
        if made.is_err() {
            lazy::forget(&disks, volume)?;
        }
        made
    }

    fn grow_volume(&self, volume: &str, gib: u32) -> Result<(), PlaneError> {
        let path = Disks::open(&self.dir)?.grow(volume, u64::from(gib) << 30)?;
        match loops::find(&path)? {
            Some(serving) => serving.grow(),
            None => Ok(()),
        }
    }

    fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
        due: BootTime,
    ) -> Result<(), PlaneError> {
        disk::attach(&self.dir, &self.program, volume, instance, device, due)
    }

    fn detach(&self, volume: &str, instance: &str) -> Result<(), PlaneError> {
        disk::detach(&self.dir, volume, instance)
    }

    fn create_snapshot(&self, snapshot: &str, volume: &str) -> Result<(), PlaneError> {
        let disks = Disks::open(&self.dir)?;
        let source = disks.existing(volume)?;
        disks.create(snapshot, Some(&source), None)
    }

    fn delete_volume(&self, volume: &str) -> Result<(), PlaneError> {
        self.delete_disk(volume)
    }

    fn delete_snapshot(&self, snapshot: &str) -> Result<(), PlaneError> {
        self.delete_disk(snapshot)
    }

    fn delete_file_system(&self, id: &str) -> Result<(), PlaneError> {
        shares::remove(&self.dir, id)
    }

    fn blocks(&self, snapshot: &str) -> Result<Vec<u32>, PlaneError> {
        blocks::list(&*self.reading.open(&self.dir)?, snapshot)
    }

    fn block(&self, snapshot: &str, index: u32) -> Result<Vec<u8>, PlaneError> {
        blocks::read(&*self.reading.open(&self.dir)?, snapshot, index)
    }

    fn console(&self, instance: &str) -> Result<Vec<u8>, PlaneError> {
        Ok(console::last(&self.folder(instance).console())?)
    }

    fn send_ssh_key(&self, instance: &str, user: &str, key: &str) -> Result<(), PlaneError> {
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

    fn images(&self) -> Result<Vec<Image>, PlaneError> {
        images::list(&self.cache)
    }

    fn sweep(
        &self,
        instances: &[&str],
        volumes: &[&str],
        snapshots: &[&str],
    ) -> Result<(), PlaneError> {
        let disks = volumes.iter().chain(snapshots).copied().collect();
        sweep::sweep(&self.dir, instances, &disks)
    }
}
