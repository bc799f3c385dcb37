//! Paths inside an instance, opened from outside.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::PlaneError;
use super::process::Process;

/// The root directory of an instance.
pub(super) fn root_of(init: Process) -> Result<OwnedFd, PlaneError> {
    let path = format!("/proc/{}/root", init.pid);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(root) => Ok(root),
        Err(rustix::io::Errno::NOENT) => Err(PlaneError::Gone),
        Err(error) => Err(anyhow::Error::new(error)
            .context(format!("opening {path}"))
            .into()),
    }
}

/// Opens a path below `root`, an instance's root: no link in it leads out of it (openat2(2),
/// `RESOLVE_IN_ROOT`).
pub(super) fn open_inside(
    root: &OwnedFd,
    path: &str,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) {
        Mode::from_raw_mode(0o644)
    } else {
        Mode::empty()
    };
    openat2(root, path, flags | OFlags::CLOEXEC, mode, resolve)
}
