//! Plugging volumes into running instances and out again.
//!
//! A volume is plugged in by giving its file a loop device and making the device's node in the
//! instance's own `/dev`, with the names that udev gives an EBS volume (EBS user guide, on device
//! names). On a Nitro instance these are `/dev/nvmeXn1`, links under the requested name and the
//! same with `xvd` for `sd` (Amazon Linux has both), and links by volume id. On a Xen instance it
//! is the requested name, with `xvd` for `sd`, and nothing else identifies the volume. A volume is
//! never unplugged while its file system is mounted or a file on it open.
//!
//! The device appears when it is due. The call has done all that can fail; the supervisor makes the
//! nodes of a device that is due later, or whose instance is rebooting.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, mkdirat, mknodat, readlinkat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::PlaneError;
use super::cgroup::Cgroups;
use super::copies::{Disks, remove};
use super::folder::{Folder, Plug};
use super::guest_path::{open_inside, root_of};
use super::lazy;
use super::loops::{self, Loop};
use super::order::Order;
use super::process::Process;
use super::traces;
use crate::catalog::Hypervisor;
use xdrive_ground::clock::{BootTime, Clock};

/// Nitro instances number their devices from 0, the root disk's; there are at most so many.
const SLOTS: std::ops::RangeInclusive<u32> = 1..=127;

/// Where udev's links by id are.
const BY_ID: &str = "disk/by-id";

/// Plugs the volume into an instance that is up; the instance has the device from `due` on. `program` serves a
/// volume whose blocks come late.
pub(super) fn attach(
    dir: &Path,
    program: &Path,
    volume: &str,
    instance: &str,
    device: &str,
    due: BootTime,
) -> Result<(), PlaneError> {
    alias(device)?;
    let folder = Folder::new(dir, instance);
    folder.supervised()?;
    let lock = lock(dir)?;
    let disks = Disks::open(dir)?;
    let file = disks.existing(volume)?;
    let known = folder.plug(volume)?;
    let serving = loops::find(&file)?;
    if serving.is_some() && known.is_none() {
        return Err(anyhow!("{volume} is plugged in elsewhere").into());
    }
    let plug = Plug {
        device: device.to_owned(),
        due: known.map_or(due, |known| known.due.min(due)),
    };
    // Written first: it records what to undo, whatever happens from here on.
    folder.set_plug(volume, &plug)?;
    let device_of = match serving {
        Some(serving) => serving,
        None if lazy::is_lazy(&disks, volume) => {
            lazy::attach(dir, &folder, program, volume, &lock)?;
            loops::serving(&file)?
        }
        None => loops::attach(&file)?,
    };
    let given = give(dir, volume, instance, &plug, &device_of);
    if given.is_err() {
        device_of.detach()?;
        remove(&folder.attached().join(volume))?;
    }
    given
}

/// Makes the device's names in the instance, or has its supervisor make them when they are due
/// and it has booted.
fn give(
    dir: &Path,
    volume: &str,
    instance: &str,
    plug: &Plug,
    device: &Loop,
) -> Result<(), PlaneError> {
    let folder = Folder::new(dir, instance);
    let is_due = plug.due <= Clock::system().boot();
    match folder.init() {
        Ok(init) if is_due => {
            let (root, hypervisor) = (root_of(init)?, hypervisor(&folder)?);
            Ok(Nodes::open(&root, hypervisor, volume, &plug.device)
                .and_then(|nodes| nodes.make(device))
                .with_context(|| format!("plugging {volume} into {instance}"))?)
        }
        Ok(_) | Err(PlaneError::Gone) => Order::PlugIn.give(dir, instance),
        Err(error) => Err(error),
    }
}

/// Unplugs it; [`PlaneError::Busy`] while the instance has it mounted or open.
pub(super) fn detach(dir: &Path, volume: &str, instance: &str) -> Result<(), PlaneError> {
    let folder = Folder::new(dir, instance);
    let _lock = lock(dir)?;
    let Some(plug) = folder.plug(volume)? else {
        return Ok(());
    };
    let disks = Disks::open(dir)?;
    let plugged = loops::find(&disks.path(volume))?;
    match (plugged, folder.init()) {
        (None, _) => {}
        (Some(plugged), Ok(init)) => {
            let cgroups = Cgroups::new(folder.name())?;
            if is_used(&plugged, &cgroups)? {
                return Err(PlaneError::Busy);
            }
            let hypervisor = hypervisor(&folder)?;
            let unplug = || -> anyhow::Result<Nodes> {
                let nodes = Nodes::open(&root_of(init)?, hypervisor, volume, &plug.device)?;
                nodes.remove()?;
                Ok(nodes)
            };
            let nodes = unplug().with_context(|| format!("unplugging {volume} from {instance}"))?;
            // Without a node it cannot be opened any more, but a process may have opened it just
            // before.
            let free = if is_used(&plugged, &cgroups)? {
                Err(PlaneError::Busy)
            } else {
                plugged.detach()
            };
            if free.is_err() && plug.due <= Clock::system().boot() {
                nodes.make(&plugged).context("plugging it in again")?;
            }
            free?;
        }
        (Some(plugged), Err(PlaneError::Gone)) => plugged.detach_when_free()?,
        (Some(_), Err(error)) => return Err(error),
    }
    traces::remove(volume);
    remove(&folder.attached().join(volume))
}

/// Makes the names of all that is due at `now` in the `/dev` of an instance that runs; existing
/// ones stay. One that cannot be made does not prevent the others.
pub(super) fn plug_in(
    dir: &Path,
    folder: &Folder,
    init: Process,
    now: BootTime,
) -> Result<(), PlaneError> {
    if due(folder, now)?.is_empty() {
        // Not even the lock is needed.
        return Ok(());
    }
    let _lock = lock(dir)?;
    let (root, hypervisor) = (root_of(init)?, hypervisor(folder)?);
    let plug_in = |volume: &str, device: &str| -> Result<(), PlaneError> {
        if let Some(disks) = Disks::open_if_any(dir)?
            && let Some(plugged) = loops::find(&disks.path(volume))?
        {
            Nodes::open(&root, hypervisor, volume, device)
                .and_then(|nodes| nodes.make(&plugged))
                .with_context(|| format!("plugging in {volume}"))?;
        }
        Ok(())
    };
    let mut outcome = Ok(());
    for (volume, plug) in due(folder, now)? {
        outcome = outcome.and(plug_in(&volume, &plug.device));
    }
    outcome
}

/// The volumes whose devices are due at `now`.
fn due(folder: &Folder, now: BootTime) -> Result<Vec<(String, Plug)>, PlaneError> {
    let mut due = Vec::new();
    for volume in folder.plugged()? {
        if let Some(plug) = folder.plug(&volume)?.filter(|plug| plug.due <= now) {
            due.push((volume, plug));
        }
    }
    Ok(due)
}

/// When the next device is due that was not at `now`, if one is.
pub(super) fn next_due(folder: &Folder, now: BootTime) -> Result<Option<BootTime>, PlaneError> {
    let mut next: Option<BootTime> = None;
    for volume in folder.plugged()? {
        // A volume unplugged meanwhile does not count.
        if let Some(plug) = folder.plug(&volume)?.filter(|plug| plug.due > now) {
            next = Some(next.map_or(plug.due, |next| next.min(plug.due)));
        }
    }
    Ok(next)
}

/// Takes the loop devices away from an instance that has ended.
pub(super) fn unplug_all(dir: &Path, folder: &Folder) -> Result<(), PlaneError> {
    if !folder.attached().exists() {
        return Ok(());
    }
    let _lock = lock(dir)?;
    for volume in folder.plugged()? {
        if let Some(disks) = Disks::open_if_any(dir)?
            && let Some(plugged) = loops::find(&disks.path(&volume))?
        {
            plugged.detach_when_free()?;
        }
        traces::remove(&volume);
        remove(&folder.attached().join(volume))?;
    }
    Ok(())
}

/// Takes the lock under which disks are attached and detached: one call at a time, over all
/// processes on this state directory.
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
    /// The names.
    names: Names,
}

#[derive(Debug)]
enum Names {
    /// As on the Nitro system.
    Nvme {
        /// The instance's `/dev/disk/by-id`.
        by_id: OwnedFd,
        /// The names there: of the device, and of its first name space.
        ids: [String; 2],
        /// The requested name, without `/dev/`, and the same with `xvd` for `sd`.
        aliases: [String; 2],
    },
    /// As on Xen: the node's own.
    Xen(String),
}

impl Nodes {
    fn open(
        root: &OwnedFd,
        hypervisor: Hypervisor,
        volume: &str,
        device: &str,
    ) -> anyhow::Result<Self> {
        let alias = alias(device)?;
        let xvd = (alias.strip_prefix("sd"))
            .map_or_else(|| alias.to_owned(), |letter| format!("xvd{letter}"));
        let dev = open_inside(root, "dev", OFlags::PATH | OFlags::DIRECTORY)?;
        if hypervisor == Hypervisor::Xen {
            let names = Names::Xen(xvd);
            return Ok(Self { dev, names });
        }
        for folder in ["disk", BY_ID] {
            match mkdirat(&dev, folder, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let by_id = open_inside(&dev, BY_ID, OFlags::PATH | OFlags::DIRECTORY)?;
        let serial = volume.replace('-', "");
        let id = format!("nvme-Amazon_Elastic_Block_Store_{serial}");
        let names = Names::Nvme {
            by_id,
            ids: [format!("{id}_1"), id],
            aliases: [alias.to_owned(), xvd],
        };
        Ok(Self { dev, names })
    }

    /// Makes them; existing ones stay.
    fn make(&self, device: &Loop) -> anyhow::Result<()> {
        let Names::Nvme {
            by_id,
            ids,
            aliases,
        } = &self.names
        else {
            return self.make_node(device).map(drop);
        };
        let node = match self.node()? {
            Some(node) => node,
            None => self.make_node(device)?,
        };
        for id in ids {
            link(&format!("../../{node}"), by_id, id)?;
        }
        for alias in aliases.iter().filter(|alias| **alias != node) {
            link(&node, &self.dev, alias)?;
        }
        Ok(())
    }

    /// Makes the node: under its name, else under the first free one.
    fn make_node(&self, device: &Loop) -> anyhow::Result<String> {
        let make = |node: &str| {
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
            match mknodat(&self.dev, node, FileType::BlockDevice, mode, device.number) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(error) => Err(error).context("making a device node"),
            }
        };
        if let Names::Xen(node) = &self.names {
            make(node)?;
            return Ok(node.clone());
        }
        for slot in SLOTS {
            let node = format!("nvme{slot}n1");
            if make(&node)? {
                return Ok(node);
            }
        }
        Err(anyhow!("the instance has no free device name"))
    }

    /// The node's name: where there are links by id, their target.
    fn node(&self) -> anyhow::Result<Option<String>> {
        let (by_id, id) = match &self.names {
            Names::Nvme { by_id, ids, .. } => (by_id, &ids[1]),
            Names::Xen(node) => return Ok(Some(node.clone())),
        };
        match readlinkat(by_id, id, Vec::new()) {
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
        let Names::Nvme {
            by_id,
            ids,
            aliases,
        } = &self.names
        else {
            return Ok(());
        };
        aliases.iter().try_for_each(|name| gone(&self.dev, name))?;
        ids.iter().try_for_each(|id| gone(by_id, id))
    }
}

/// The instance's hypervisor, which decides its disks' names.
fn hypervisor(folder: &Folder) -> Result<Hypervisor, PlaneError> {
    Ok(Hypervisor::for_type(&folder.machine()?.instance_type))
}

/// The name below `/dev` in `device`.
fn alias(device: &str) -> anyhow::Result<&str> {
    let alias = device.strip_prefix("/dev/").unwrap_or(device);
    if alias.is_empty() || alias.contains('/') || alias.starts_with('.') {
        return Err(anyhow!("{device:?} is no device name"));
    }
    Ok(alias)
}

fn link(target: &str, folder: &OwnedFd, name: &str) -> anyhow::Result<()> {
    match symlinkat(target, folder, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("linking {name}")),
    }
}
