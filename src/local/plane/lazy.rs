//! Volumes made from snapshots whose blocks come at their first touch, as on EBS (EBS user guide, *Initialize
//! Amazon EBS volumes*).
//!
//! ```text
//! guest ─ loop device ─ FUSE (a process a volume: `serve`) ─ the volume's file
//!                         └─ pace: when a block is there     └─ its map (VOL.lazy)
//! ```
//!
//! The file has everything from the start; the process in between answers late. It is mounted nowhere: its
//! loop device is made in a mount namespace that ends with that, and shows the file's own path.

mod map;
mod pace;
mod serve;
mod source;

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, anyhow};

pub(crate) use serve::serve;
pub use source::{Lazy, Source, Speed};

use super::PlaneError;
use super::copies::Disks;
use super::folder::Folder;
use super::program::start_apart;
use serve::Report;

/// Whether the blocks of a volume come late.
pub(super) fn is_lazy(disks: &Disks, volume: &str) -> bool {
    map::path(disks, volume).exists()
}

/// Has the blocks of a volume come late that `disks` makes from a snapshot, if they do. Before its file gets its
/// name.
pub(super) fn prepare(disks: &Disks, volume: &str, source: &Source<'_>) -> Result<(), PlaneError> {
    match source.lazy {
        Some(lazy) => map::create(disks, volume, source, lazy),
        None => Ok(()),
    }
}

/// Removes what a volume has beside its file.
pub(super) fn forget(disks: &Disks, volume: &str) -> Result<(), PlaneError> {
    super::copies::remove(&map::path(disks, volume))
}

/// The volume whose map has this name.
pub(super) fn volume_of(name: &str) -> Option<&str> {
    name.strip_suffix(map::SUFFIX)
}

/// Makes a loop device of a volume whose blocks come late: `served_by` is the program that serves them, until the
/// device is detached. It has the `lock` of attachments, too, until the device is there: whoever cleans up after a
/// killed caller waits for that.
pub(super) fn attach(
    dir: &Path,
    folder: &Folder,
    served_by: &Path,
    volume: &str,
    lock: &File,
) -> Result<(), PlaneError> {
    let words = ["serve-volume".as_ref(), dir.as_os_str(), volume.as_ref()];
    let lock = lock.try_clone().context("sharing a lock")?;
    let line = start_apart(served_by, &words, lock.into(), &folder.log())?;
    match serde_json::from_str(&line) {
        Ok(Report::Ready) => Ok(()),
        Ok(Report::Failed(text)) => Err(anyhow!("{text}").into()),
        Err(_) => Err(anyhow!("what serves {volume} ended without a word").into()),
    }
}
