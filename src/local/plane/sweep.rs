//! The removal of what is left of instances and of calls that were killed half way.
//!
//! Every step is harmless when repeated, and when another process does the same meanwhile. The
//! order of clearing an instance is: processes, network, disks, cgroups, folder; its folder, the
//! record of all that, goes last.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use jiff::{SignedDuration, Timestamp};

use xdrive_ground::clock::Clock;

use super::cgroup::Cgroups;
use super::copies::Disks;
use super::folder::{self, Folder};
use super::{PlaneError, copies, disk, lazy, loops, network, root};

/// How long the console of a removed instance stays: EC2 lists it for about an hour.
const CONSOLES: SignedDuration = SignedDuration::from_hours(1);
/// How long a killed supervisor may take to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Ends the instance if it still runs, and removes all of it but the console.
pub(super) fn clear(dir: &Path, folder: &Folder) -> Result<(), PlaneError> {
    let deadline = Instant::now() + TIMEOUT;
    let lock = loop {
        match folder.lock() {
            Ok(Some(lock)) => break Some(lock),
            Ok(None) => {}
            Err(PlaneError::Gone) => break None,
            Err(error) => return Err(error),
        }
        // A supervisor holds it. One that has just started records itself in a moment.
        if let Some(supervisor) = folder.supervisor()? {
            supervisor.kill();
        }
        if Instant::now() > deadline {
            return Err(
                anyhow!("the supervisor in {} does not end", folder.path().display()).into(),
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    clear_up(dir, folder)?;
    folder.empty()?;
    drop(lock);
    Ok(())
}

/// Removes what an instance has outside of its folder, and its root file system.
pub(super) fn clear_up(dir: &Path, folder: &Folder) -> Result<(), PlaneError> {
    let cgroups = Cgroups::new(folder.name())?;
    cgroups.kill()?;
    network::down(folder.name())?;
    disk::unplug_all(dir, folder)?;
    root::wait_for_end(folder)?;
    cgroups.remove()
}

/// Removes all that is not among `instances` or `disks` (volumes and snapshots).
pub(super) fn sweep(
    dir: &Path,
    instances: &[&str],
    disks: &BTreeSet<&str>,
) -> Result<(), PlaneError> {
    sweep_instances(dir, instances)?;
    sweep_disks(dir, disks)
}

/// Ends and removes instances that are not in `known`.
fn sweep_instances(dir: &Path, known: &[&str]) -> Result<(), PlaneError> {
    for path in entries(&folder::all(dir))? {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(instance) = name.filter(|name| !known.contains(name)) else {
            continue;
        };
        clear(dir, &Folder::new(dir, instance))?;
        let written = fs::metadata(path.join("console")).and_then(|file| file.modified());
        let written = written.ok().and_then(|at| Timestamp::try_from(at).ok());
        let now = Clock::system().now();
        if written.is_none_or(|written| now.duration_since(written) > CONSOLES) {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

/// Detaches loop devices that no instance has, and removes files that are not in `known`.
fn sweep_disks(dir: &Path, known: &BTreeSet<&str>) -> Result<(), PlaneError> {
    Disks::remove_half_store(dir)?;
    let Some(disks) = Disks::open_if_any(dir)? else {
        return Ok(());
    };
    let _lock = disk::lock(dir)?;
    let mut plugged = BTreeSet::new();
    for instance in entries(&folder::all(dir))? {
        let records = entries(&instance.join("attached"))?;
        plugged.extend(
            records
                .iter()
                .filter_map(|record| record.file_name()?.to_str())
                .map(|volume| disks.path(volume)),
        );
    }
    loops::detach_below(&disks.folder(), |file| plugged.contains(file))?;
    for path in entries(&disks.folder())? {
        let name = path.file_name().and_then(|name| name.to_str());
        let id = name.and_then(|name| {
            let disk = name.strip_suffix(".img");
            disk.or_else(|| lazy::volume_of(name))
        });
        let is_plugged = id.is_some_and(|id| plugged.contains(&disks.path(id)));
        if id.is_none_or(|id| !known.contains(id)) && !is_plugged {
            copies::remove(&path)?;
        }
    }
    Ok(())
}

/// The entries of a folder; none if it does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, PlaneError> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => Ok(other.with_context(|| format!("reading {}", folder.display()))?),
    }
}
