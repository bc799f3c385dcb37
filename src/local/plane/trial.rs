//! Trials of what instances are made of: not every root may make it, as in a container.

use anyhow::Context as _;

use super::PlaneError;
use super::host_lock::HostLock;
use super::program::run;

/// The size of the file that becomes a disk, in bytes.
const SIZE: u64 = 1 << 20;

/// A trial, and what is said of a computer on which it fails.
type Trial = (fn() -> Result<(), PlaneError>, &'static str);

const TRIALS: [Trial; 2] = [
    (
        mount,
        "root may mount nothing in a namespace of its own here, as in a container",
    ),
    (
        attach,
        "root gets no loop device here, as in a container or on WSL 1",
    ),
];

/// Why no instance can run on this computer, although its user is root; a line each. A program that
/// is not there is no reason: it can be installed. What was tried leaves nothing behind.
pub(crate) fn refusals() -> Vec<String> {
    let refused = TRIALS.iter().filter_map(|(trial, why)| match trial() {
        Ok(()) | Err(PlaneError::Missing(_)) => None,
        Err(error) => Some(format!("{why}: {error:#}").replace('\n', " ")),
    });
    refused.collect()
}

/// Mounts a file system in a mount namespace, which ends with its only process.
fn mount() -> Result<(), PlaneError> {
    // Nothing is unmounted while another namespace has a copy of it.
    let _lock = HostLock::Mounts.share()?;
    let words = [
        "--mount",
        "--propagation",
        "private",
        "mount",
        "-t",
        "tmpfs",
        "xdrive",
        "/tmp",
    ];
    run("unshare", words).map(drop)
}

/// Has a loop device serve an empty file.
fn attach() -> Result<(), PlaneError> {
    let file = tempfile::NamedTempFile::new().context("making a file")?;
    let sized = file.as_file().set_len(SIZE);
    sized.context("making a file")?;
    let path = file.path().canonicalize().context("finding a file")?;
    let device = {
        let _lock = HostLock::Loops.lock()?;
        let show = ["--find".as_ref(), "--show".as_ref(), path.as_os_str()];
        run("losetup", show)?
    };
    // Where another program looks at it, the kernel detaches it after that.
    run("losetup", ["--detach", device.trim()]).map(drop)
}
