//! The names of drives, kept for completions: what the last listing found, and what was used since.
//! A file for each EC2.
//!
//! Nothing else is decided by them. A file that cannot be read or written is none, and what is no
//! drive's name is left out.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::cloud::{Cloud, Place};
use crate::config::Paths;
use crate::ids::DriveName;

/// The kept names of an EC2's drives.
#[derive(Debug)]
pub(crate) struct Names(PathBuf);

impl Names {
    /// The file of the EC2 for which xdrive is called by `command`.
    #[must_use]
    pub(crate) fn new(paths: &Paths, command: &str) -> Self {
        let digest = Sha256::digest(format!("{}\n{command}", paths.local_dir.display()));
        let name = format!("{}.json", hex::encode(&digest[..8]));
        Self(paths.names.join(name))
    }

    /// The names, and how old they are.
    #[must_use]
    pub(crate) fn read(&self) -> Option<(Vec<DriveName>, Duration)> {
        let changed = std::fs::metadata(&self.0).ok()?.modified().ok()?;
        let age = changed.elapsed().unwrap_or_default();
        let text = std::fs::read(&self.0).ok()?;
        let kept: Vec<String> = serde_json::from_slice(&text).ok()?;
        let names = kept.iter().filter_map(|name| name.parse().ok());
        Some((names.collect(), age))
    }

    /// The names of this cloud's drives, if they are kept: an account's always, another's, which
    /// answers a shell in time, once a shell has asked for them.
    #[must_use]
    pub(crate) fn find(cloud: &Cloud, paths: &Paths) -> Option<Self> {
        let names = Self::new(paths, &cloud.command);
        (cloud.place == Place::Aws || names.are_kept()).then_some(names)
    }

    /// Whether names of this EC2 are kept: whether anybody completes them.
    fn are_kept(&self) -> bool {
        self.0.exists()
    }

    /// Keeps these names in place of those that were known.
    pub(crate) fn write(&self, names: &[DriveName]) {
        self.keep(names, None);
    }

    /// Adds the name of a drive that there is. The others are as old as they were.
    pub(crate) fn add(&self, drive: &DriveName) {
        let changed = std::fs::metadata(&self.0).and_then(|file| file.modified());
        let mut names = self.read().map(|(names, _)| names).unwrap_or_default();
        if names.contains(drive) {
            return;
        }
        names.push(drive.clone());
        names.sort_unstable();
        self.keep(&names, Some(changed.unwrap_or(SystemTime::UNIX_EPOCH)));
    }

    /// Takes away the name of a drive that there is no more. The others are as old as they were.
    pub(crate) fn remove(&self, drive: &DriveName) {
        let Some((mut names, _)) = self.read() else {
            return;
        };
        let changed = std::fs::metadata(&self.0).and_then(|file| file.modified());
        names.retain(|name| name != drive);
        self.keep(&names, changed.ok());
    }

    /// Writes the names, as those of the time `changed`, or of now.
    fn keep(&self, names: &[DriveName], changed: Option<SystemTime>) {
        let Some(folder) = self.0.parent() else {
            return;
        };
        let write = || {
            std::fs::create_dir_all(folder)?;
            let file = tempfile::NamedTempFile::new_in(folder)?;
            let names: Vec<&str> = names.iter().map(DriveName::as_str).collect();
            serde_json::to_writer(&file, &names)?;
            if let Some(changed) = changed {
                file.as_file().set_modified(changed)?;
            }
            file.persist(&self.0)?;
            std::io::Result::Ok(())
        };
        drop(write());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_is_added_makes_the_others_no_newer() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names(folder.path().join("names").join("ec2.json"));
        let (beta, alpha) = ("beta".parse().unwrap(), "alpha".parse().unwrap());
        assert!(!names.are_kept());
        names.add(&beta);
        let (known, age) = names.read().unwrap();
        let words = |names: &[DriveName]| -> Vec<String> {
            names.iter().map(DriveName::to_string).collect()
        };
        assert_eq!(words(&known), ["beta"]);
        assert!(
            age > Duration::from_hours(1),
            "EC2 was never asked: {age:?}"
        );

        names.write(&known);
        names.add(&alpha);
        let (known, age) = names.read().unwrap();
        assert_eq!(words(&known), ["alpha", "beta"]);
        assert!(age < Duration::from_hours(1), "{age:?}");
        names.remove(&beta);
        assert_eq!(words(&names.read().unwrap().0), ["alpha"]);
    }

    #[test]
    fn invalid_names_of_drives_are_not_read_from_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names(folder.path().join("ec2.json"));
        std::fs::write(&names.0, r#"["a;id", "$(id)", "-x", "demo", "a\nb"]"#).unwrap();
        assert_eq!(names.read().unwrap().0, ["demo".parse().unwrap()]);
    }
}
