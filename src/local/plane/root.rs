//! An instance's root file system: an overlay on a tree that all instances of an image share, or a
//! disk of its own.
//!
//! A disk is a copy of the image's, as a root volume is one of an AMI's snapshot, and a real file
//! system of whatever kind the image has. The boot script mounts it, in the instance's mount
//! namespace only, from a loop device that the kernel releases with the last mount (`loop(4)`,
//! `LO_FLAGS_AUTOCLEAR`): it ends with the instance, whichever process is killed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;

use super::folder::Folder;
use super::host_lock::HostLock;
use super::program::run;
use super::{PlaneError, loops};

/// The root disk in the folder of an image that is not a tree.
const DISK: &str = "root.xfs";

/// Gives the instance its root, from the image's folder `tree`; before its first boot.
pub(super) fn prepare(folder: &Folder, tree: &Path) -> Result<(), PlaneError> {
    let disk = tree.join(DISK);
    if !disk.is_file() {
        std::os::unix::fs::symlink(tree, folder.path().join("lower"))
            .context("linking the machine tree")?;
        return Ok(());
    }
    // A reflink is free; elsewhere at least its holes are kept.
    let options = ["--reflink=auto", "--sparse=always"].map(OsStr::new);
    let files = [disk, folder.disk()];
    run(
        "cp",
        options
            .into_iter()
            .chain(files.iter().map(|f| f.as_os_str())),
    )?;
    Ok(())
}

/// The lock to hold while the instance boots, if it has a disk: two boots that look for a free loop
/// device at once would find the same.
pub(super) fn lock(folder: &Folder) -> Result<Option<File>, PlaneError> {
    if folder.disk().exists() {
        HostLock::Loops.lock().map(Some)
    } else {
        Ok(None)
    }
}

/// Waits until the kernel has unmounted the root of an ended instance, and released its disk.
pub(super) fn wait_for_end(folder: &Folder) -> Result<(), PlaneError> {
    let disk = match fs::canonicalize(folder.disk()) {
        Ok(disk) => disk,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(anyhow::Error::new(error)
                .context("finding a root disk")
                .into());
        }
    };
    loops::find(&disk)?.map_or(Ok(()), |device| device.detach_when_free())
}
