//! The file with the URL of an EC2 in a folder that is served, for other programs.
//!
//! The server holds a lock (flock(2)) on it for as long as it lives, so a file that a killed
//! server left behind is recognized without process ids, which are reused.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Local;
use xdrive_ground::quote::quote;

const NAME: &str = "serving";

/// How long a server waits for the lock, which `environment` holds for an instant.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The file, while this process serves; removed when dropped.
#[derive(Debug)]
pub(super) struct Announcement {
    path: PathBuf,
    /// Holds the lock until it is closed.
    _file: File,
}

impl Announcement {
    /// Announces `url` in `dir`; an error if another process serves it.
    pub(super) fn make(dir: &Path, url: &str) -> anyhow::Result<Self> {
        let path = dir.join(NAME);
        let mut waited = Duration::ZERO;
        loop {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)?;
            match file.try_lock() {
                // The file may have been removed by its last owner between opening and locking.
                Ok(()) if is_at(&file, &path)? => {
                    file.set_len(0)?;
                    writeln!(file, "{url}")?;
                    return Ok(Self { path, _file: file });
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if waited < TIMEOUT => {
                    let pause = Duration::from_millis(20);
                    std::thread::sleep(pause);
                    waited += pause;
                }
                Err(TryLockError::WouldBlock) => {
                    let mut other = String::new();
                    file.read_to_string(&mut other)?;
                    anyhow::bail!("{} is served already, at {}", dir.display(), other.trim());
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove");
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((held.dev(), held.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error of `environment`.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// No living process serves the folder.
    #[error("nothing serves the EC2 in {}", .0.display())]
    NotServed(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
}

impl EnvironmentError {
    /// The command to type, if one helps.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotServed(_) => Some("start it with `xdrive local serve` in another terminal"),
            Self::Unreadable(..) => None,
        }
    }
}

/// The lines that point other tools at `local`, for a POSIX shell to `eval`: endpoint, key and
/// region. The session token is unset: a set one would be another account's.
pub fn environment(local: &Local) -> Result<String, EnvironmentError> {
    let key = local.credentials();
    let url = served_at(local.dir())?;
    let mut lines = String::from("unset AWS_SESSION_TOKEN\n");
    for (name, value) in [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", &key.access_key_id),
        ("AWS_SECRET_ACCESS_KEY", &key.secret_access_key),
        ("AWS_REGION", local.region()),
        // The AWS CLI and boto3 read only this one.
        ("AWS_DEFAULT_REGION", local.region()),
    ] {
        lines.extend(["export ", name, "=", &quote(value), "\n"]);
    }
    Ok(lines)
}

fn served_at(dir: &Path) -> Result<String, EnvironmentError> {
    let path = dir.join(NAME);
    let unreadable = |error| EnvironmentError::Unreadable(path.clone(), error);
    let not_served = || EnvironmentError::NotServed(dir.to_owned());
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_served()),
        Err(error) => return Err(unreadable(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => return Err(not_served()),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(unreadable(error)),
    }
    let mut url = String::new();
    file.read_to_string(&mut url).map_err(unreadable)?;
    match url.trim() {
        // Locked, not written yet: a server is starting.
        "" => Err(not_served()),
        url => Ok(url.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Announcement, EnvironmentError, NAME, served_at};

    #[test]
    fn the_url_is_there_while_it_is_served_and_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let announcement = Announcement::make(dir.path(), "http://127.0.0.1:1234").unwrap();
        assert_eq!(served_at(dir.path()).unwrap(), "http://127.0.0.1:1234");
        drop(announcement);
        assert!(matches!(
            served_at(dir.path()),
            Err(EnvironmentError::NotServed(_))
        ));
        assert!(!dir.path().join(NAME).exists());
    }

    #[test]
    fn the_announcement_of_a_killed_server_is_not_believed_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NAME), "http://127.0.0.1:9999999\n").unwrap();
        assert!(matches!(
            served_at(dir.path()),
            Err(EnvironmentError::NotServed(_))
        ));
        let _announcement = Announcement::make(dir.path(), "http://127.0.0.1:1").unwrap();
        assert_eq!(served_at(dir.path()).unwrap(), "http://127.0.0.1:1");
    }

    #[test]
    fn a_folder_is_served_once_and_a_second_server_is_refused_with_the_address() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Announcement::make(dir.path(), "http://127.0.0.1:1234").unwrap();
        let error = Announcement::make(dir.path(), "http://127.0.0.1:5").unwrap_err();
        assert!(
            error.to_string().contains("http://127.0.0.1:1234"),
            "{error}"
        );
    }
}
