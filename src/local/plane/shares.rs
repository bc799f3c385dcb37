//! The file systems of EFS: folders that every instance of a state directory has, at a place that only its
//! `mount.nfs4` knows (`scripts/tree`). That shows one where a mount target is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::PlaneError;

fn folder(dir: &Path, id: &str) -> PathBuf {
    dir.join("shares").join(id)
}

/// Makes the folder of a file system, unless it is there.
pub(crate) fn make(dir: &Path, id: &str) -> Result<(), PlaneError> {
    let folder = folder(dir, id);
    Ok(fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?)
}

/// Removes a file system, with all that is in it.
pub(super) fn remove(dir: &Path, id: &str) -> Result<(), PlaneError> {
    let folder = folder(dir, id);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(anyhow::Error::new(error)
            .context(format!("removing {}", folder.display()))
            .into()),
        _ => Ok(()),
    }
}
