//! Removing what is left of instances and of calls that were killed half way.
//!
//! Every step is harmless when repeated, and when another process does the same meanwhile. The
//! order of clearing an instance is: processes, network, disks, cgroups, folder; the record of
//! what there is to clear (its folder) goes last.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, anyhow};

use super::cgroup::Cgroups;
use super::folder::{self, Folder};
use super::{PlaneError, RealPlane, network};

/// How long the console of an instance that is gone stays: EC2 lists it for about an hour.
const CONSOLES: Duration = Duration::from_secs(3600);
/// How long a supervisor that was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the instance if it still runs, and removes all of it but the console.
pub(super) fn clear(dir: &Path, folder: &Folder) -> Result<(), PlaneError> {
    let deadline = Instant::now() + PATIENCE;
    let lock = loop {
        match folder.lock() {
            Ok(Some(lock)) => break Some(lock),
            Ok(None) => {}
            Err(PlaneError::Gone) => break None,
            Err(error) => return Err(error),
        }
        // A supervisor holds it. One that just started says who it is in a moment.
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
    cgroups.remove()?;
    let _ = dir;
    Ok(())
}

impl RealPlane {
    pub(super) fn sweep(
        &self,
        instances: &[&str],
        _volumes: &[&str],
        _snapshots: &[&str],
    ) -> Result<(), PlaneError> {
        let known: BTreeSet<&str> = instances.iter().copied().collect();
        let all = folder::all(&self.dir);
        let entries = match fs::read_dir(&all) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(anyhow::Error::new(error).into()),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("reading {}", all.display()))?;
            let name = entry.file_name();
            let Some(instance) = name.to_str().filter(|name| !known.contains(name)) else {
                continue;
            };
            self.clear(instance)?;
            let written =
                fs::metadata(entry.path().join("console")).and_then(|file| file.modified());
            let age = written
                .ok()
                .and_then(|at| SystemTime::now().duration_since(at).ok());
            if age.is_none_or(|age| age > CONSOLES) {
                fs::remove_dir_all(entry.path())
                    .with_context(|| format!("removing {}", entry.path().display()))?;
            }
        }
        Ok(())
    }
}
