//! The parts of the host that a container has besides `/work`: folders of the drive, and Docker's
//! socket.
//!
//! A mount's folder is below `/work`, where all paths of a drive begin: it is there for `cp` and `ls`
//! as well. `shell/host/mounts` checks on the host that no link leads out of it.

use std::fmt;
use std::str::FromStr;

use super::container_path::{InvalidPath, check_characters, container_path, plain};
use super::shares::Shared;

/// Where Docker's socket is in a container that has it, as every Docker client looks for it.
pub const DOCKER_SOCKET: &str = "/var/run/docker.sock";

/// A folder or file on the drive that is mounted into the container: `HOST:CONTAINER[:ro]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path below `/work`; `.` is all of it.
    host: String,
    /// The absolute path in the container.
    container: String,
    is_read_only: bool,
}

/// A mount that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMount {
    /// The mount has not two or three parts.
    #[error("it is not HOST:CONTAINER or HOST:CONTAINER:ro, and no path in it may have a colon")]
    Parts,
    /// The third part is no mode.
    #[error("{0:?} is neither ro nor rw")]
    Mode(String),
    /// The first path is not one of the drive.
    #[error(
        "{0:?} is no folder of the drive: HOST is below /work there, such as data or /work/data, \
         and not on this computer"
    )]
    NotOfTheDrive(String),
    /// Either path is none, or the second one cannot be replaced.
    #[error(transparent)]
    Path(#[from] InvalidPath),
}

impl FromStr for Mount {
    type Err = InvalidMount;

    fn from_str(text: &str) -> Result<Self, InvalidMount> {
        let parts: Vec<&str> = text.split(':').collect();
        let (host, container, mode) = match parts[..] {
            [host, container] => (host, container, "rw"),
            [host, container, mode] => (host, container, mode),
            _ => return Err(InvalidMount::Parts),
        };
        let is_read_only = match mode {
            "ro" => true,
            "rw" => false,
            other => return Err(InvalidMount::Mode(other.to_owned())),
        };
        [host, container]
            .into_iter()
            .try_for_each(check_characters)?;
        let not_of_the_drive = || InvalidMount::NotOfTheDrive(host.to_owned());
        let below = match host.strip_prefix('/') {
            None => host,
            Some(absolute) => match absolute.trim_start_matches('/').strip_prefix("work") {
                Some("") => "/",
                Some(below) if below.starts_with('/') => below,
                _ => return Err(not_of_the_drive()),
            },
        };
        let is_here = |it: &str| it == "." || it.starts_with("./") || it.starts_with('~');
        if host.is_empty() || is_here(host) {
            return Err(not_of_the_drive());
        }
        if !container.starts_with('/') {
            return Err(InvalidPath::NotAbsolute(container.to_owned()).into());
        }
        let below = plain(below)?;
        let container = container_path(container)?;
        Ok(Self {
            host: if below.is_empty() {
                ".".to_owned()
            } else {
                below
            },
            container,
            is_read_only,
        })
    }
}

/// The line of `XDRIVE_MOUNTS` on the host.
impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.is_read_only { "ro" } else { "rw" };
        write!(f, "{mode}:{}:{}", self.host, self.container)
    }
}

/// The parts of the host that a container is to have. `None` leaves them as the container has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// All of its mounts.
    pub mounts: Option<Vec<Mount>>,
    /// Whether it has Docker's socket.
    pub docker: Option<bool>,
}

impl Places {
    /// Whether all stays as the container has it.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.mounts.is_none() && self.docker.is_none()
    }

    /// Merges two sets of places: `other` has those that are open here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            mounts: self.mounts.or(other.mounts),
            docker: self.docker.or(other.docker),
        }
    }

    /// Refuses two of the same place in the container, where also `shares` are.
    pub fn check(&self, shares: &[Shared]) -> Result<(), String> {
        let mounts = self.mounts.iter().flatten();
        let mounts = mounts.map(|mount| mount.container.as_str());
        let mut seen: Vec<&str> = Vec::new();
        if self.docker == Some(true) {
            seen.extend([DOCKER_SOCKET, "/run/docker.sock"]);
        }
        for path in mounts.chain(shares.iter().map(Shared::container)) {
            if seen.contains(&path) {
                return Err(format!("two mounts are to be {path} in the container"));
            }
            seen.push(path);
        }
        Ok(())
    }

    /// The values of `XDRIVE_MOUNTS` and `XDRIVE_DOCKER`.
    pub(super) fn inputs(&self) -> (String, &'static str) {
        let mounts = match self.mounts.as_deref() {
            None => String::new(),
            Some([]) => "none".to_owned(),
            Some(mounts) => {
                let lines: Vec<String> = mounts.iter().map(Mount::to_string).collect();
                lines.join("\n")
            }
        };
        let docker = match self.docker {
            None => "",
            Some(true) => "yes",
            Some(false) => "no",
        };
        (mounts, docker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<String, InvalidMount> {
        text.parse().map(|mount: Mount| mount.to_string())
    }

    #[test]
    fn a_mount_leads_from_below_work_to_a_place_in_the_container() {
        for (given, read) in [
            ("data:/data", "rw:data:/data"),
            ("/work/a//b/./c/:/x//y/", "rw:a/b/c:/x/y"),
            ("/work:/home/jo", "rw:.:/home/jo"),
            (
                "a b'\"$x,\\:/it's, \"that\":ro",
                "ro:a b'\"$x,\\:/it's, \"that\"",
            ),
            ("über:/run/x:rw", "rw:über:/run/x"),
            ("data:/worker", "rw:data:/worker"),
            (" data:/ data", "rw: data:/ data"),
            ("...:/x", "rw:...:/x"),
        ] {
            assert_eq!(line(given).as_deref(), Ok(read), "{given}");
        }
    }

    #[test]
    fn mounts_that_lead_outside_the_drive_are_refused() {
        let why = |text: &str| line(text).unwrap_err().to_string();
        for text in ["", "data", "/data", "a:/b:ro:x", "a:b:/c:ro"] {
            assert!(why(text).contains("it is not HOST:CONTAINER"), "{text}");
        }
        assert!(why("a:/b:rx").contains("neither ro nor rw"));
        assert!(why("a:b:/c").contains("neither ro nor rw"));
        for text in ["..:/x", "a/../..:/x", "/work/../etc:/x", "a:/x/../work"] {
            assert!(why(text).ends_with("has `..`"), "{text}: {}", why(text));
        }
        for text in [
            ":/x",
            ".:/x",
            "./a:/x",
            "~/a:/x",
            "/:/x",
            "/etc:/x",
            "/workshop:/x",
            "/v1/docker:/x",
        ] {
            assert!(why(text).contains("below /work there"), "{text}");
        }
        for text in ["a:", "a:b", "a:~/x"] {
            assert!(why(text).contains("not an absolute path"), "{text}");
        }
        for text in [
            "a:/",
            "a://",
            "a:/./",
            "a:/proc",
            "a:/sys/x",
            "a:/dev/shm",
            "a:/run/xdrive/x",
            "a:/work",
            "a:/work/b",
        ] {
            assert!(why(text).ends_with("cannot be replaced"), "{text}");
        }
        for text in ["a\nb:/x", "a:/x\n", "a\t:/x", "a :/x", "a:/x :ro"] {
            assert!(why(text).contains("control character"), "{text:?}");
        }
    }

    #[test]
    fn a_place_in_the_container_is_taken_once() {
        let places = |mounts: &[&str], docker| Places {
            mounts: Some(mounts.iter().map(|it| it.parse().unwrap()).collect()),
            docker,
        };
        assert_eq!(places(&["a:/x", "b:/y"], Some(true)).check(&[]), Ok(()));
        let twice = places(&["a:/x", "b:/x/"], None).check(&[]).unwrap_err();
        assert_eq!(twice, "two mounts are to be /x in the container");
        assert!(
            places(&["a:/run/docker.sock"], Some(true))
                .check(&[])
                .is_err()
        );
        assert_eq!(places(&["a:/run/docker.sock"], None).check(&[]), Ok(()));
        let shared = ["lessons=/x".parse().unwrap()];
        assert!(places(&["a:/x"], None).check(&shared).is_err());
        assert_eq!(places(&["a:/y"], None).check(&shared), Ok(()));
    }

    #[test]
    fn places_that_are_not_given_are_left_to_the_host() {
        let kept = Places::default();
        assert!(kept.are_kept());
        assert_eq!(kept.inputs(), (String::new(), ""));
        let cleared = Places {
            mounts: Some(Vec::new()),
            docker: Some(false),
        };
        assert_eq!(cleared.clone().or(kept).inputs(), ("none".into(), "no"));
        let given = Places {
            mounts: Some(vec!["a:/x".parse().unwrap(), "b:/y:ro".parse().unwrap()]),
            docker: Some(true),
        };
        assert_eq!(
            Places::default().or(given).inputs(),
            ("rw:a:/x\nro:b:/y".into(), "yes")
        );
    }
}
