//! The host keys of drives for OpenSSH's client: a file for each drive, in the format of
//! `known_hosts` (`sshd(8)`).
//!
//! A file has one key: that recorded for the instance which has the drive now. It is written anew
//! before each connection, so that an instance that replaced another is no stranger.

use std::io;
use std::path::PathBuf;

use super::Paths;
use crate::ids::{DriveIn, DriveName};
use crate::ssh::PublicHostKey;

/// The suffix behind a drive's word, or a container's, that makes the host name for OpenSSH's
/// client.
pub const SUFFIX: &str = ".xdrive";

/// The folder of these files.
#[derive(Debug, Clone)]
pub struct KnownHosts(PathBuf);

impl KnownHosts {
    /// The user's.
    #[must_use]
    pub fn new(paths: &Paths) -> Self {
        Self(paths.known_hosts.clone())
    }

    /// Makes `key` the only one of the host that has `place`.
    pub fn write(&self, place: &DriveIn<DriveName>, key: &PublicHostKey) -> io::Result<()> {
        let host = format!("{}{SUFFIX}", place.word());
        std::fs::create_dir_all(&self.0)?;
        let file = tempfile::NamedTempFile::new_in(&self.0)?;
        // Whatever else the user's HostKeyAlias calls it: the file is this host's alone.
        std::fs::write(file.path(), format!("* {key}\n"))?;
        // Whole, because another connection may be reading it.
        file.persist(self.0.join(host))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::HostKey;

    #[test]
    fn a_drives_file_has_the_key_of_its_last_host_alone() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownHosts(folder.path().join("known_hosts"));
        let drive = "demo".parse().unwrap();
        let [old, new] = [(); 2].map(|()| HostKey::generate().unwrap().public);
        known.write(&drive, &old.parse().unwrap()).unwrap();
        // Whoever may tag may have added to it: a line, or words that a file of known hosts knows.
        let tag = format!("{new} a comment\n* ssh-ed25519 AAAA");
        if let Ok(key) = tag.parse() {
            known.write(&drive, &key).unwrap();
        }
        known
            .write(&drive, &format!("{new} a comment").parse().unwrap())
            .unwrap();
        let read = |name: &str| std::fs::read_to_string(known.0.join(name));
        assert_eq!(read("demo.xdrive").unwrap(), format!("* {new}\n"));
        for tag in [
            "",
            "x",
            "@cert-authority * ssh-ed25519 AAAA",
            "ssh-ed25519 AAAA",
        ] {
            tag.parse::<PublicHostKey>().unwrap_err();
        }
        assert_eq!(std::fs::read_dir(&known.0).unwrap().count(), 1);
    }
}
