//! Shares that a container has: file systems that other drives have at the same time, mounted by NFS.
//!
//! `shell/host/share` mounts them on the host before the container starts.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use super::container_path::{InvalidPath, container_path};
use crate::ids::{FileSystemId, InvalidShare, ShareName};

/// The folder in a container below which a share is that was given no other place.
const FOLDER: &str = "/data";

/// A file system, by the name that it has as a share, or by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// A share's name.
    Name(ShareName),
    /// The id of any file system.
    Id(FileSystemId),
}

impl Share {
    /// The name or id, as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Name(name) => name.as_str(),
            Self::Id(id) => id.as_str(),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        text.parse()
            .map(Self::Id)
            .or_else(|_| text.parse().map(Self::Name))
    }
}

/// A share, and where a container has it: `NAME[=PATH][:ro]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    share: Share,
    /// The absolute path in the container.
    container: String,
    is_read_only: bool,
}

/// A share's place that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShared {
    /// The name is none.
    #[error("{0}; a share is NAME, NAME=/PATH or either with :ro")]
    Name(#[from] InvalidShare),
    /// The mode is none.
    #[error("{0:?} is neither ro nor rw")]
    Mode(String),
    /// The path is none, or cannot be replaced.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// The path has a character that separates what a record has.
    #[error("its path can have neither a colon nor a comma")]
    Separator,
}

impl Shared {
    /// The share.
    #[must_use]
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// The path in the container.
    #[must_use]
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Whether the container can only read it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

impl FromStr for Shared {
    type Err = InvalidShared;

    fn from_str(text: &str) -> Result<Self, InvalidShared> {
        let (place, mode) = match text.split_once(':') {
            None => (text, "rw"),
            Some(parts) => parts,
        };
        let is_read_only = match mode {
            "ro" => true,
            "rw" => false,
            _ if mode.contains(':') => return Err(InvalidShared::Separator),
            other => return Err(InvalidShared::Mode(other.to_owned())),
        };
        let (share, path) = match place.split_once('=') {
            None => (place, None),
            Some((share, path)) => (share, Some(path)),
        };
        let share: Share = share.parse()?;
        let path = path.map_or_else(|| format!("{FOLDER}/{share}"), str::to_owned);
        let container = container_path(&path)?;
        if container.contains(',') {
            return Err(InvalidShared::Separator);
        }
        Ok(Self {
            share,
            container,
            is_read_only,
        })
    }
}

/// As it is given, and recorded in a tag.
impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.is_read_only { ":ro" } else { "" };
        write!(f, "{}={}{mode}", self.share, self.container)
    }
}

/// A share that can be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The share, and where the container has it.
    pub shared: Shared,
    /// The address of its mount target.
    pub address: Ipv4Addr,
}

/// The values of `XDRIVE_SHARES` and `XDRIVE_TARGETS`; `None` leaves the container's as they are.
pub(super) fn inputs(shares: Option<&[Reached]>) -> (String, String) {
    let Some(shares) = shares else {
        return (String::new(), String::new());
    };
    if shares.is_empty() {
        return ("none".to_owned(), String::new());
    }
    let line = |it: &Reached| {
        let Shared {
            share,
            container,
            is_read_only,
        } = &it.shared;
        let mode = if *is_read_only { "ro" } else { "rw" };
        format!("nfs:{mode}:{share}:{container}")
    };
    let lines: Vec<String> = shares.iter().map(line).collect();
    let targets = shares.iter();
    let targets: Vec<String> = targets
        .map(|it| format!("{}={}", it.shared.share, it.address))
        .collect();
    (lines.join("\n"), targets.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_a_place_and_a_mode() {
        for (given, read) in [
            ("data", "data=/data/data"),
            ("data:ro", "data=/data/data:ro"),
            ("lessons=/lessons//x/:ro", "lessons=/lessons/x:ro"),
            ("fs-0a1b=/a=b:rw", "fs-0a1b=/a=b"),
        ] {
            let shared: Shared = given.parse().unwrap();
            assert_eq!(shared.to_string(), read);
            assert_eq!(read.parse(), Ok(shared));
        }
    }

    #[test]
    fn no_share_is_at_a_place_that_a_record_cannot_have() {
        let why = |text: &str| text.parse::<Shared>().unwrap_err().to_string();
        for (text, word) in [
            ("", "cannot be empty"),
            ("Data", "lower-case"),
            ("../x", "lower-case"),
            ("data=x", "absolute"),
            ("data=", "absolute"),
            ("data=/", "cannot be replaced"),
            ("data=/work/x", "cannot be replaced"),
            ("data=/a/../proc", "`..`"),
            ("data=/a\nb", "control character"),
            ("data=/a,b", "comma"),
            ("data=/a:b:ro", "colon"),
            ("data:rx", "neither ro nor rw"),
        ] {
            assert!(why(text).contains(word), "{text:?}: {}", why(text));
        }
    }

    #[test]
    fn the_host_is_told_all_shares_or_to_keep_them() {
        let reached = |text: &str, last| Reached {
            shared: text.parse().unwrap(),
            address: Ipv4Addr::new(172, 31, 0, last),
        };
        assert_eq!(inputs(None), (String::new(), String::new()));
        assert_eq!(inputs(Some(&[])).0, "none");
        let two = [reached("data", 7), reached("fs-0a:ro", 8)];
        let (lines, targets) = inputs(Some(&two));
        assert_eq!(lines, "nfs:rw:data:/data/data\nnfs:ro:fs-0a:/data/fs-0a");
        assert_eq!(targets, "data=172.31.0.7\nfs-0a=172.31.0.8");
    }
}
