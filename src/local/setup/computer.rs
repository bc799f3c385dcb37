//! The needs of a build on this computer, and which of them it lacks.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::plane::{self, PATH};

/// The room for a build: both parts, what is downloaded for them, and the image's layers twice
/// while it is packed.
const ROOM: u64 = 2 << 30;

/// The programs that build, each with its Debian package.
const PROGRAMS: [(&str, &str); 4] = [
    ("debootstrap", "debootstrap"),
    ("flock", "util-linux"),
    ("python3", "python3"),
    ("xz", "xz-utils"),
];

/// The keys that verify packages of another Debian: without them `debootstrap` only warns.
const KEYRING: (&str, &str) = ("debian-archive-keyring", "debian-archive-keyring");
const KEYRING_FILE: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// pip, or what makes an environment that has it.
const PIP: (&str, &str) = ("pip or venv for Python", "python3-venv");

/// The needs that this computer does not meet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unmet {
    /// Whether root is needed, and this is another user.
    pub root: bool,
    /// Reasons that no package helps against, a sentence each.
    pub reasons: Vec<String>,
    /// Programs that are not installed, each with the Debian package that has it.
    pub missing: Vec<(&'static str, &'static str)>,
}

impl Unmet {
    /// The packages to install, each once.
    #[must_use]
    pub fn packages(&self) -> Vec<&'static str> {
        let mut packages: Vec<_> = self.missing.iter().map(|(_, package)| *package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("this computer cannot be set up for --local")?;
        if self.root {
            out.write_str("\n  building and running instances needs root")?;
        }
        for reason in &self.reasons {
            write!(out, "\n  {reason}")?;
        }
        if !self.missing.is_empty() {
            let names: Vec<&str> = self.missing.iter().map(|(name, _)| *name).collect();
            write!(out, "\n  not installed: {}", names.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unmet {}

/// The Debian packages that [`check`] may find missing.
pub fn packages() -> impl Iterator<Item = &'static str> {
    let programs = PROGRAMS.iter().chain(plane::programs());
    programs
        .chain([&KEYRING, &PIP])
        .map(|(_, package)| *package)
}

/// Looks whether this computer has all that building in `cache` needs, and that instances need then;
/// the error has all that it lacks. Changes nothing.
pub fn check(cache: &Path) -> Result<(), Unmet> {
    let is_root = rustix::process::geteuid().is_root();
    let unmet = look(cache, is_root, plane::refusals);
    if unmet.is_nothing() {
        Ok(())
    } else {
        Err(unmet)
    }
}

/// Finds the needs that this computer does not meet. `refusals` tries what root may not do on every
/// computer.
fn look(cache: &Path, is_root: bool, refusals: impl FnOnce() -> Vec<String>) -> Unmet {
    let mut unmet = Unmet {
        root: !is_root,
        ..Unmet::default()
    };
    if !["x86_64", "aarch64"].contains(&std::env::consts::ARCH) {
        let arch = std::env::consts::ARCH;
        unmet
            .reasons
            .push(format!("there are no images for {arch}"));
    }
    if find("dpkg").is_none() {
        unmet
            .reasons
            .push("it is neither Debian nor Ubuntu, nor made of one".to_owned());
    }
    if let Some((folder, free)) = room(cache)
        && free < ROOM
        && !super::is_done(cache)
    {
        unmet.reasons.push(format!(
            "{} has {} MiB free, and {} are needed",
            folder.display(),
            free >> 20,
            ROOM >> 20
        ));
    }
    let programs = PROGRAMS.iter().chain(plane::programs());
    let absent = programs.filter(|(name, _)| find(name).is_none());
    unmet.missing.extend(absent);
    if !Path::new(KEYRING_FILE).exists() {
        unmet.missing.push(KEYRING);
    }
    if find("python3").is_none() || !has_pip() {
        unmet.missing.push(PIP);
    }
    if is_root {
        unmet.reasons.extend(refusals());
    }
    unmet
}

/// Where programs are: where the user has them, then the system's folders, which root's own `PATH`
/// may lack.
pub(super) fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(PATH);
    path
}

fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&path())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Whether Python has what the image's builder calls.
fn has_pip() -> bool {
    let question = "import sys, importlib.util as u; \
                    sys.exit(not (u.find_spec('pip') or u.find_spec('ensurepip')))";
    let answer = Command::new("python3")
        .args(["-c", question])
        .env("PATH", path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    answer.is_ok_and(|status| status.success())
}

/// The nearest existing folder of `cache` and its ancestors, and its free bytes.
fn room(cache: &Path) -> Option<(&Path, u64)> {
    let folder = cache.ancestors().find(|folder| folder.exists())?;
    let system = rustix::fs::statvfs(folder).ok()?;
    Some((folder, system.f_bavail.saturating_mul(system.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_listed_at_once_and_each_package_once() {
        let unmet = Unmet {
            root: true,
            reasons: vec!["/var has 100 MiB free, and 2048 are needed".to_owned()],
            missing: vec![
                ("unshare", "util-linux"),
                ("debootstrap", "debootstrap"),
                ("flock", "util-linux"),
            ],
        };
        assert_eq!(
            unmet.to_string(),
            "this computer cannot be set up for --local\n  \
             building and running instances needs root\n  \
             /var has 100 MiB free, and 2048 are needed\n  \
             not installed: unshare, debootstrap, flock"
        );
        assert_eq!(unmet.packages(), ["debootstrap", "util-linux"]);
    }

    #[test]
    fn a_right_that_root_lacks_is_a_reason_and_only_root_tries_it() {
        let cache = tempfile::tempdir().unwrap();
        let why = "root gets no loop device here";
        let unmet = look(cache.path(), true, || vec![why.to_owned()]);
        assert!(unmet.to_string().contains(&format!("\n  {why}")), "{unmet}");
        let unmet = look(cache.path(), false, || panic!("without root"));
        assert!(unmet.root && !unmet.to_string().contains(why), "{unmet}");
    }

    #[test]
    fn room_is_looked_up_where_the_cache_will_be() {
        let top = tempfile::tempdir().unwrap();
        let cache = top.path().join("not/there");
        let (folder, free) = room(&cache).unwrap();
        assert_eq!(folder, top.path());
        assert!(free > 0);
    }
}
