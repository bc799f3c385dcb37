//! The names of drives, kept for completions: what the last listing found, a file for each EC2.
//!
//! Nothing else is decided by them. A file that cannot be read or written is none.

use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::Paths;

/// The kept names of an EC2's drives.
#[derive(Debug)]
pub struct Names(PathBuf);

impl Names {
    /// Those of the EC2 for which xdrive is called by `command`.
    #[must_use]
    pub fn of(paths: &Paths, command: &str) -> Self {
        let digest = Sha256::digest(format!("{}\n{command}", paths.local_dir.display()));
        let name = format!("{}.json", hex::encode(&digest[..8]));
        Self(paths.names.join(name))
    }

    /// The names, and how old they are.
    #[must_use]
    pub fn read(&self) -> Option<(Vec<String>, Duration)> {
        let changed = std::fs::metadata(&self.0).ok()?.modified().ok()?;
        let age = changed.elapsed().unwrap_or_default();
        let text = std::fs::read(&self.0).ok()?;
        Some((serde_json::from_slice(&text).ok()?, age))
    }

    /// Keeps these names in place of those that were known.
    pub fn write(&self, names: &[String]) {
        let Some(folder) = self.0.parent() else {
            return;
        };
        let write = || {
            std::fs::create_dir_all(folder)?;
            let file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&file, names)?;
            file.persist(&self.0)?;
            std::io::Result::Ok(())
        };
        drop(write());
    }
}
