//! Plugging volumes into running instances and out again.
//!
//! A volume is plugged in by giving its file a loop device and making the device's node in the
//! instance's own `/dev`, with the names that udev gives an EBS volume on a Nitro instance (EBS
//! user guide, on device names of Nitro instances): `/dev/nvmeXn1`, a link from the name that was
//! asked for, and links by volume id. It is never pulled out from under a mounted file system or
//! an open file.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, mkdirat, mknodat, readlinkat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::cgroup::Cgroups;
use super::copies::{Disks, remove};
use super::folder::Folder;
use super::loops::{self, Loop};
use super::machine::{open_inside, root_of};
use super::process::Process;
use super::{PlaneError, RealPlane};

/// Nitro instances number their devices from 0, the root disk's; there are at most so many.
const SLOTS: std::ops::RangeInclusive<u32> = 1..=127;

/// Where udev's links by id are.
const BY_ID: &str = "disk/by-id";

impl RealPlane {
    pub(super) fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
    ) -> Result<(), PlaneError> {
        let folder = self.folder(instance);
        let init = folder.init()?;
        let _lock = lock(&self.dir)?;
        let disks = Disks::open(&self.dir)?;
        let file = disks.existing(volume)?;
        let record = folder.attached().join(volume);
        let serving = loops::of(&file)?;
        if serving.is_some() && !record.exists() {
            return Err(anyhow!("{volume} is plugged in elsewhere").into());
        }
        // Written first: whatever happens from here on, it says what to take back.
        fs::write(&record, device).with_context(|| format!("writing {}", record.display()))?;
        let device_of = match serving {
            Some(serving) => serving,
            None => loops::attach(&file)?,
        };
        let nodes = Nodes::open(&root_of(init)?, volume, device);
        let made = nodes.and_then(|nodes| nodes.make(&device_of));
        if made.is_err() {
            device_of.detach()?;
            remove(&record)?;
        }
        made.with_context(|| format!("plugging {volume} into {instance}"))?;
        Ok(())
    }

    pub(super) fn detach(&self, volume: &str, instance: &str) -> Result<(), PlaneError> {
        let folder = self.folder(instance);
        let _lock = lock(&self.dir)?;
        let record = folder.attached().join(volume);
        let device = match fs::read_to_string(&record) {
            Ok(device) => device,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(anyhow::Error::new(error).into()),
        };
        let disks = Disks::open(&self.dir)?;
        let plugged = loops::of(&disks.path(volume))?;
        match (plugged, folder.init()) {
            (None, _) => {}
            (Some(plugged), Ok(init)) => {
                let cgroups = Cgroups::new(folder.name())?;
                if is_used(&plugged, &cgroups)? {
                    return Err(PlaneError::Busy);
                }
                let unplug = || -> anyhow::Result<Nodes> {
                    let nodes = Nodes::open(&root_of(init)?, volume, &device)?;
                    nodes.remove()?;
                    Ok(nodes)
                };
                let nodes =
                    unplug().with_context(|| format!("unplugging {volume} from {instance}"))?;
                // Without a node nobody can open it any more; somebody may have just before.
                let free = if is_used(&plugged, &cgroups)? {
                    Err(PlaneError::Busy)
                } else {
                    plugged.detach()
                };
                if free.is_err() {
                    nodes.make(&plugged).context("plugging it in again")?;
                }
                free?;
            }
            (Some(plugged), Err(PlaneError::Gone)) => plugged.detach_when_free()?,
            (Some(_), Err(error)) => return Err(error),
        }
        remove(&record)
    }
}

/// Makes the names of what is plugged in once more, in the new `/dev` of an instance that rebooted.
pub(super) fn plug_in_again(dir: &Path, folder: &Folder, init: Process) -> Result<(), PlaneError> {
    let _lock = lock(dir)?;
    let root = root_of(init)?;
    let records = fs::read_dir(folder.attached()).context("reading what is plugged in")?;
    for record in records {
        let record = record.context("reading what is plugged in")?;
        let device = fs::read_to_string(record.path()).context("reading what is plugged in")?;
        if let Some(disks) = Disks::open_if_any(dir)?
            && let Some(volume) = record.file_name().to_str()
            && let Some(plugged) = loops::of(&disks.path(volume))?
        {
            Nodes::open(&root, volume, &device)
                .and_then(|nodes| nodes.make(&plugged))
                .with_context(|| format!("plugging in {volume} again"))?;
        }
    }
    Ok(())
}

/// Takes the loop devices away from an instance that has ended.
pub(super) fn unplug_all(dir: &Path, folder: &Folder) -> Result<(), PlaneError> {
    let records = match fs::read_dir(folder.attached()) {
        Ok(records) => records,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(anyhow::Error::new(error).into()),
    };
    let _lock = lock(dir)?;
    for record in records {
        let record = record.context("reading what is plugged in")?;
        if let Some(disks) = Disks::open_if_any(dir)?
            && let Some(volume) = record.file_name().to_str()
            && let Some(plugged) = loops::of(&disks.path(volume))?
        {
            plugged.detach_when_free()?;
        }
        remove(&record.path())?;
    }
    Ok(())
}

/// One call at a time plugs in or out, over all processes on this state directory.
pub(super) fn lock(dir: &Path) -> Result<File, PlaneError> {
    let take = || -> anyhow::Result<File> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(dir.join("attach.lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    };
    Ok(take().with_context(|| format!("locking {}", dir.join("attach.lock").display()))?)
}

/// Whether the instance has the device mounted or open.
fn is_used(device: &Loop, cgroups: &Cgroups) -> Result<bool, PlaneError> {
    Ok(device.is_claimed()?
        || cgroups
            .processes()
            .into_iter()
            .any(|pid| loops::is_open_by(device.number, pid)))
}

/// The names of one volume in an instance's `/dev`.
#[derive(Debug)]
struct Nodes {
    /// The instance's `/dev`.
    dev: OwnedFd,
    /// Its `/dev/disk/by-id`.
    by_id: OwnedFd,
    /// The names there: of the device, and of its first name space.
    ids: [String; 2],
    /// The name asked for, without `/dev/`.
    alias: String,
}

impl Nodes {
    fn open(root: &OwnedFd, volume: &str, device: &str) -> anyhow::Result<Self> {
        let alias = device.strip_prefix("/dev/").unwrap_or(device);
        if alias.is_empty() || alias.contains('/') || alias.starts_with('.') {
            return Err(anyhow!("{device:?} is no device name"));
        }
        let dev = open_inside(root, "dev", OFlags::PATH | OFlags::DIRECTORY)?;
        for folder in ["disk", BY_ID] {
            match mkdirat(&dev, folder, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let by_id = open_inside(&dev, BY_ID, OFlags::PATH | OFlags::DIRECTORY)?;
        let serial = volume.replace('-', "");
        let id = format!("nvme-Amazon_Elastic_Block_Store_{serial}");
        Ok(Self {
            dev,
            by_id,
            ids: [format!("{id}_1"), id],
            alias: alias.to_owned(),
        })
    }

    /// Makes them; those that are there stay.
    fn make(&self, device: &Loop) -> anyhow::Result<()> {
        let node = match self.node()? {
            Some(node) => node,
            None => self.make_node(device)?,
        };
        for id in &self.ids {
            link(&format!("../../{node}"), &self.by_id, id)?;
        }
        if self.alias != node {
            link(&node, &self.dev, &self.alias)?;
        }
        Ok(())
    }

    /// Makes the node under the first free name.
    fn make_node(&self, device: &Loop) -> anyhow::Result<String> {
        for slot in SLOTS {
            let node = format!("nvme{slot}n1");
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
            match mknodat(&self.dev, &node, FileType::BlockDevice, mode, device.number) {
                Ok(()) => return Ok(node),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error).context("making a device node"),
            }
        }
        Err(anyhow!("the instance has no free device name"))
    }

    /// The node's name, as the link by id says.
    fn node(&self) -> anyhow::Result<Option<String>> {
        match readlinkat(&self.by_id, &self.ids[1], Vec::new()) {
            Ok(target) => {
                let target = target.into_string()?;
                Ok(target.strip_prefix("../../").map(str::to_owned))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error).context("reading a link by id"),
        }
    }

    /// Removes them, the node before the link that leads to it.
    fn remove(&self) -> anyhow::Result<()> {
        let gone = |folder: &OwnedFd, name: &str| match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("removing {name}")),
        };
        if let Some(node) = self.node()?.filter(|node| !node.contains('/')) {
            gone(&self.dev, &node)?;
        }
        gone(&self.dev, &self.alias)?;
        self.ids.iter().try_for_each(|id| gone(&self.by_id, id))
    }
}

fn link(target: &str, folder: &OwnedFd, name: &str) -> anyhow::Result<()> {
    match symlinkat(target, folder, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("linking {name}")),
    }
}
