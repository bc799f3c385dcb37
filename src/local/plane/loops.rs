//! Loop devices, which turn files into disks. sysfs is the record of which device serves which
//! file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::fs::{Dev, Mode, OFlags, makedev};

use super::PlaneError;
use super::host_lock::HostLock;
use super::program::run;

/// How long the kernel may take to unmount a disk of an ended instance.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The options by which a free device serves a file. Past the host's page cache (the instance has its own), so that a
/// copy of the file has exactly what the instance has written to its disk. Where the sectors of the host's disk are
/// larger than an EBS volume's, which have 512 bytes, the kernel goes through the cache.
pub(super) const OPTIONS: [&str; 4] = [
    "--find",
    "--nooverlap",
    "--direct-io=on",
    "--sector-size=512",
];

/// A loop device in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loop {
    /// `/dev/loopN`.
    pub device: PathBuf,
    /// The file behind it.
    pub file: PathBuf,
    /// The loop device's number.
    pub number: Dev,
}

/// All loop devices of the computer that have a file.
pub(super) fn all() -> Result<Vec<Loop>, PlaneError> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").context("reading /sys/block")? {
        let entry = entry.context("reading /sys/block")?;
        let name = entry.file_name();
        // A device that is removed meanwhile, or has no file, cannot be read here.
        let (Ok(file), Ok(number)) = (
            fs::read_to_string(entry.path().join("loop/backing_file")),
            fs::read_to_string(entry.path().join("dev")),
        ) else {
            continue;
        };
        let file = file.trim_end_matches('\n');
        found.push(Loop {
            device: Path::new("/dev").join(name),
            file: PathBuf::from(file.strip_suffix(" (deleted)").unwrap_or(file)),
            number: parse_number(&number)
                .with_context(|| format!("sysfs has the device number {number:?}"))?,
        });
    }
    Ok(found)
}

/// The loop device that serves `file`, if one does. `file` must be an absolute path without links.
pub(super) fn find(file: &Path) -> Result<Option<Loop>, PlaneError> {
    Ok(all()?.into_iter().find(|candidate| candidate.file == file))
}

/// Makes a loop device serve `file`.
pub(super) fn attach(file: &Path) -> Result<Loop, PlaneError> {
    {
        // Two that look for a free device at once would find the same.
        let _lock = HostLock::Loops.lock()?;
        let arguments = OPTIONS
            .iter()
            .map(std::ffi::OsStr::new)
            .chain([file.as_os_str()]);
        run("losetup", arguments)?;
    }
    serving(file)
}

/// The loop device that serves `file`, which one must.
pub(super) fn serving(file: &Path) -> Result<Loop, PlaneError> {
    Ok(find(file)?.with_context(|| format!("no loop device serves {}", file.display()))?)
}

impl Loop {
    /// Whether a file system on it is mounted, in any namespace, or another device is built on it.
    pub(super) fn is_claimed(&self) -> Result<bool, PlaneError> {
        // For a block device O_EXCL without O_CREAT fails while it is in use by the system
        // (open(2)).
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(&self.device, flags, Mode::empty()) {
            // Without a file behind it, it cannot be opened.
            Ok(_) | Err(rustix::io::Errno::NXIO | rustix::io::Errno::NOENT) => Ok(false),
            Err(rustix::io::Errno::BUSY) => Ok(true),
            Err(error) => Err(anyhow::Error::new(error)
                .context(format!("looking at {}", self.device.display()))
                .into()),
        }
    }

    /// Has the device be as large as its file is now.
    pub(super) fn grow(&self) -> Result<(), PlaneError> {
        // Kernels before 6.18 look at the size that they know of a file; to ask about the device has them look anew.
        run("losetup", [self.device.as_os_str()])?;
        let arguments = ["--set-capacity".as_ref(), self.device.as_os_str()];
        run("losetup", arguments).map(drop)
    }

    /// Whether it still serves the same file.
    fn is_there(&self) -> Result<bool, PlaneError> {
        Ok(all()?.contains(self))
    }

    /// Detaches its file. [`PlaneError::Busy`] if a process has the device open, though it is not
    /// mounted.
    pub(super) fn detach(&self) -> Result<(), PlaneError> {
        let lock = HostLock::Loops.lock()?;
        if !self.is_there()? {
            return Ok(());
        }
        if let Err(error) = run("losetup", ["--detach".as_ref(), self.device.as_os_str()])
            && self.is_there()?
        {
            return Err(error);
        }
        drop(lock);
        // The kernel does it at the last close. A program of the host that opens every new device
        // (udev) closes it in a moment.
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.is_there()? {
            if Instant::now() > deadline {
                return Err(PlaneError::Busy);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Detaches it from an instance that has ended: as soon as the kernel has unmounted it.
    pub(super) fn detach_when_free(&self) -> Result<(), PlaneError> {
        let deadline = Instant::now() + TIMEOUT;
        while self.is_claimed()? {
            if Instant::now() > deadline {
                return Err(anyhow!("{} stays mounted", self.device.display()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.detach()
    }
}

/// Detaches every device whose file is below `folder` and not in `keep`.
pub(super) fn detach_below(folder: &Path, keep: impl Fn(&Path) -> bool) -> Result<(), PlaneError> {
    for device in all()? {
        if device.file.starts_with(folder) && !keep(&device.file) {
            device.detach_when_free()?;
        }
    }
    Ok(())
}

/// Whether a process has the device open.
pub(super) fn is_open_by(number: Dev, pid: i32) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        // Gone meanwhile.
        return false;
    };
    entries.flatten().any(|entry| {
        fs::metadata(entry.path())
            .is_ok_and(|file| file.file_type().is_block_device() && file.rdev() == number)
    })
}

/// `MAJOR:MINOR` as sysfs writes it.
pub(super) fn parse_number(text: &str) -> Option<Dev> {
    let (major, minor) = text.trim_end().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}
