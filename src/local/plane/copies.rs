//! Volumes and snapshots: one sparse file each, and copies that share blocks.
//!
//! A copy is a reflink (`FICLONE`, `ioctl_ficlone(2)`): a point in time, taken in some milliseconds
//! of a file in use. Where the state directory's file system has no reflinks, the files live on an
//! XFS of their own, kept in one sparse file: mounted by the first user, unmounted by the last.
//! There is no other way to copy: its result would not be of one moment.
//!
//! A new file gets its name when it is complete and on disk, never before.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::fs::{FlockOperation, flock, ioctl_ficlone, statvfs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::host_lock::HostLock;
use super::program::{MKFS, run};
use super::{PlaneError, loops};

/// The nominal size of the XFS, in bytes. It occupies only what is in it.
const STORE: u64 = 1 << 40;
/// The XFS file's name until it is complete.
const HALF_STORE: &str = "disks.xfs.half";
/// Below this much free space nothing is begun, in bytes: a file system in a file that finds no
/// room for its own records in the middle of a write shuts down.
const ROOM: u64 = 64 << 20;

/// How often a user looks whether it is the last one, and the pause between two looks: a program that this
/// process starts meanwhile holds copies of its locks until its exec, and unmounts nothing.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(3);

/// The folder of volumes and snapshots, mounted while this lives.
#[derive(Debug)]
pub(super) struct Disks {
    /// The state directory, absolute and without links: as sysfs writes it.
    dir: PathBuf,
    /// Held shared by all users; exclusive while mounting or unmounting.
    lock: File,
}

impl Disks {
    /// Mounts the folder, and makes it if there is none.
    pub(super) fn open(dir: &Path) -> Result<Self, PlaneError> {
        let open = || -> anyhow::Result<Self> {
            fs::create_dir_all(dir)?;
            let dir = fs::canonicalize(dir)?;
            let lock = File::options()
                .create(true)
                .append(true)
                .open(dir.join("disks.lock"))?;
            Ok(Self { dir, lock })
        };
        let disks = open().with_context(|| format!("opening {}", dir.display()))?;
        disks.flock(FlockOperation::LockShared)?;
        while !disks.is_in_place()? {
            disks.flock(FlockOperation::LockExclusive)?;
            disks.put_in_place()?;
            // Between the two locks another may have unmounted it: check again.
            disks.flock(FlockOperation::LockShared)?;
        }
        Ok(disks)
    }

    /// [`Disks::open`], unless there never was a volume.
    pub(super) fn open_if_any(dir: &Path) -> Result<Option<Self>, PlaneError> {
        let any = dir.join("disks").exists() || dir.join("disks.xfs").exists();
        any.then(|| Self::open(dir)).transpose()
    }

    /// Removes the XFS that a killed process was making; under the lock no other makes one.
    pub(super) fn remove_half_store(dir: &Path) -> Result<(), PlaneError> {
        let half = dir.join(HALF_STORE);
        if !half.exists() {
            return Ok(());
        }
        let lock = File::options().append(true).open(dir.join("disks.lock"));
        let lock = lock.with_context(|| format!("locking {}", dir.display()))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => remove(&half),
            Err(Errno::WOULDBLOCK) => Ok(()),
            Err(error) => Err(anyhow::Error::new(error)
                .context(format!("locking {}", dir.display()))
                .into()),
        }
    }

    /// Where the files are.
    pub(super) fn folder(&self) -> PathBuf {
        self.dir.join("disks")
    }

    fn store(&self) -> PathBuf {
        self.dir.join("disks.xfs")
    }

    /// The file of a volume or snapshot, there or not.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.folder().join(format!("{id}.img"))
    }

    /// The file of a volume or snapshot that must be there.
    pub(super) fn existing(&self, id: &str) -> Result<PathBuf, PlaneError> {
        let path = self.path(id);
        if path.is_file() {
            Ok(path)
        } else {
            Err(anyhow!("the file of {id} is missing: {}", path.display()).into())
        }
    }

    /// A new file: a copy of `source` or empty, at least `size` bytes long.
    pub(super) fn create(
        &self,
        id: &str,
        source: Option<&Path>,
        size: Option<u64>,
    ) -> Result<(), PlaneError> {
        let path = self.path(id);
        if path.exists() {
            return Err(anyhow!("there is a {} already", path.display()).into());
        }
        self.demand_room()?;
        let half = self.folder().join(format!("{id}.half"));
        let made = self.fill(&half, source, size).and_then(|()| {
            fs::rename(&half, &path).map_err(|error| self.failure(&error, &path))?;
            let folder = File::open(self.folder()).map_err(|error| self.failure(&error, &path))?;
            folder
                .sync_all()
                .map_err(|error| self.failure(&error, &path))
        });
        if made.is_err() {
            remove(&half)?;
            remove(&path)?;
        }
        made
    }

    /// Makes the file of `id` at least `size` bytes long. Returns its path.
    pub(super) fn grow(&self, id: &str, size: u64) -> Result<PathBuf, PlaneError> {
        let path = self.existing(id)?;
        let grown = File::options().write(true).open(&path).and_then(|file| {
            if file.metadata()?.len() < size {
                file.set_len(size)?;
                file.sync_all()?;
            }
            Ok(())
        });
        grown.map_err(|error| self.failure(&error, &path))?;
        Ok(path)
    }

    fn fill(
        &self,
        half: &Path,
        source: Option<&Path>,
        size: Option<u64>,
    ) -> Result<(), PlaneError> {
        let failure = |error: std::io::Error| self.failure(&error, half);
        let file = private(half).map_err(failure)?;
        if let Some(source) = source {
            let source = File::open(source).map_err(failure)?;
            ioctl_ficlone(&file, &source).map_err(|error| failure(error.into()))?;
        }
        let length = file.metadata().map_err(failure)?.len();
        if let Some(size) = size.filter(|size| *size > length) {
            file.set_len(size).map_err(failure)?;
        }
        file.sync_all().map_err(failure)
    }

    /// The error for `path`: [`PlaneError::Full`], or any other.
    fn failure(&self, error: &std::io::Error, path: &Path) -> PlaneError {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => PlaneError::Full(self.dir.clone()),
            // The file in which the XFS lives could not grow.
            _ if self.demand_room().is_err() => PlaneError::Full(self.dir.clone()),
            _ => anyhow!("writing {}: {error}", path.display()).into(),
        }
    }

    fn demand_room(&self) -> Result<(), PlaneError> {
        for folder in [&self.dir, &self.folder()] {
            let free =
                statvfs(folder).with_context(|| format!("looking at {}", folder.display()))?;
            if free.f_bavail.saturating_mul(free.f_frsize) < ROOM {
                return Err(PlaneError::Full(self.dir.clone()));
            }
        }
        Ok(())
    }

    /// Whether the folder is the one that holds the files.
    fn is_in_place(&self) -> Result<bool, PlaneError> {
        let device = |path: &Path| match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.dev())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(anyhow::Error::new(error).context(format!("looking at {}", path.display())))
            }
        };
        let Some(folder) = device(&self.folder())? else {
            return Ok(false);
        };
        // A folder beside a store is only the place where the store is mounted.
        Ok(!self.store().exists() || Some(folder) != device(&self.dir)?)
    }

    fn put_in_place(&self) -> Result<(), PlaneError> {
        if self.is_in_place()? {
            return Ok(());
        }
        if !self.store().exists() {
            if has_reflink(&self.dir)? {
                fs::create_dir(self.folder()).context("making the folder of disks")?;
                return Ok(());
            }
            self.make_store()?;
        }
        fs::create_dir_all(self.folder()).context("making the folder of disks")?;
        let _lock = HostLock::Loops.lock()?;
        // discard: the blocks of deleted files are freed on the outer file system.
        let options = ["-t", "xfs", "-o", "loop,discard,noatime"];
        let arguments = options.iter().map(std::ffi::OsStr::new);
        run(
            "mount",
            arguments.chain([self.store().as_os_str(), self.folder().as_os_str()]),
        )?;
        Ok(())
    }

    /// Makes the XFS, sparse; it gets its name when it is complete.
    fn make_store(&self) -> Result<(), PlaneError> {
        let free = statvfs(&self.dir).context("looking at the free space")?;
        if free.f_bavail.saturating_mul(free.f_frsize) < 2 * ROOM {
            return Err(PlaneError::Full(self.dir.clone()));
        }
        let half = self.dir.join(HALF_STORE);
        let file = private(&half).and_then(|file| file.set_len(STORE));
        file.map_err(|error| self.failure(&error, &half))?;
        let options = ["-q", "-f", "-m", "reflink=1", "-l", "size=64m"];
        let arguments = options
            .iter()
            .map(std::ffi::OsStr::new)
            .chain([half.as_os_str()]);
        let made = run(MKFS.0, arguments);
        if made.is_err() {
            remove(&half)?;
        }
        made?;
        fs::rename(&half, self.store()).map_err(|error| self.failure(&error, &half))
    }

    fn flock(&self, operation: FlockOperation) -> Result<(), PlaneError> {
        Ok(flock(&self.lock, operation)
            .with_context(|| format!("locking {}", self.dir.join("disks.lock").display()))?)
    }
}

impl Drop for Disks {
    /// The last user unmounts. A holder of the lock, or of a loop device on a file, is another
    /// user.
    fn drop(&mut self) {
        if !self.is_last() {
            return;
        }
        if self.store().exists() && self.is_in_place().unwrap_or(false) {
            let _mounts = HostLock::Mounts.lock();
            match unmount(self.folder(), UnmountFlags::empty()) {
                Ok(()) => self.wait_for_loop(),
                Err(Errno::BUSY) => {}
                Err(error) => tracing::warn!(%error, "cannot unmount {}", self.folder().display()),
            }
        }
    }
}

impl Disks {
    /// Whether nobody else holds the lock, which is this user's alone then.
    fn is_last(&self) -> bool {
        for _ in 0..LOOKS {
            if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// Waits until the kernel has released the store's file, a moment after the unmount. Until then
    /// a mount could find the old one.
    fn wait_for_loop(&self) {
        let deadline = Instant::now() + Duration::from_secs(2);
        while loops::find(&self.store()).is_ok_and(|serving| serving.is_some()) {
            if Instant::now() > deadline {
                tracing::warn!("{} is still in use", self.store().display());
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Whether the first volume in `dir`, there or not yet, will need an XFS to be made for it.
pub(super) fn needs_store(dir: &Path) -> Result<bool, PlaneError> {
    if dir.join("disks").exists() || dir.join("disks.xfs").exists() {
        return Ok(false);
    }
    // A folder that is yet to be made will be on its parent's file system.
    match dir.ancestors().find(|folder| folder.is_dir()) {
        Some(folder) => Ok(!has_reflink(folder)?),
        None => Ok(true),
    }
}

/// A new file of a disk, which its owner alone may read, whoever may look into the state directory.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// Whether files on the file system of `dir` can share blocks.
fn has_reflink(dir: &Path) -> Result<bool, PlaneError> {
    let try_it = || -> std::io::Result<bool> {
        let mut one = tempfile::tempfile_in(dir)?;
        one.write_all(&[1; 4096])?;
        let other = tempfile::tempfile_in(dir)?;
        match ioctl_ficlone(&other, &one) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS | Errno::XDEV) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    };
    Ok(try_it().with_context(|| format!("trying a reflink in {}", dir.display()))?)
}

pub(super) fn remove(path: &Path) -> Result<(), PlaneError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(anyhow::Error::new(error)
            .context(format!("removing {}", path.display()))
            .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_disk_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = private(&dir.path().join("disks.xfs")).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }
}
