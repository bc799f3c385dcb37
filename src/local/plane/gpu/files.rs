//! Files of an instance that has a GPU, or something in its place.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;

/// The folder of the stand-in's own files in an instance.
pub(super) const OWN: &str = "usr/lib/gpu-stand-in";

/// Writes a file of the instance, whatever the caller's umask is.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        make(folder)?;
    }
    fs::write(path, content)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .with_context(|| format!("writing {}", path.display()))
}

/// Makes a folder of the instance, and those above it that are not there.
pub(super) fn make(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make(above)?;
    }
    fs::create_dir(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o755)))
        .with_context(|| format!("making the folder {}", folder.display()))
}
