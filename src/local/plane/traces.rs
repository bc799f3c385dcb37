//! Traces: an instance's recorder of first reads leaves one in this computer's kernel if it is cut off, named
//! after the volume (`shell/host/hot.py`). On EC2 it goes with the machine.

use std::path::Path;

use super::PlaneError;
use super::host_lock::HostLock;
use super::program::run;

/// Where the kernel's traces are mounted.
const TRACING: &str = "/sys/kernel/tracing";

/// Removes a trace, also where that file system is mounted nowhere else.
const REMOVE: &str = "[ -d \"$1/instances\" ] || mount -t tracefs xdrive \"$1\" || exit 0; \
                      [ ! -d \"$1/$2\" ] || rmdir \"$1/$2\"";

/// Removes the trace of a volume, if there is one. One that stays does no harm.
pub(super) fn remove(volume: &str) {
    let trace = format!("instances/xdrive-{volume}");
    let remove = || -> Result<(), PlaneError> {
        let is_mounted = Path::new(TRACING).join("instances").exists();
        let is_there = Path::new(TRACING).join(&trace).exists();
        if is_mounted && !is_there || !Path::new(TRACING).exists() {
            return Ok(());
        }
        let _mounts = HostLock::Mounts.share()?;
        let words = ["--mount", "--propagation", "private", "sh", "-c", REMOVE];
        run("unshare", words.into_iter().chain(["sh", TRACING, &trace])).map(drop)
    };
    if let Err(error) = remove() {
        tracing::warn!(%error, "a trace of {volume} is left");
    }
}
