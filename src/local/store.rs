//! The state directory: one JSON file, replaced atomically, and one lock.
//!
//! - `state.json` — the whole [`World`]. Written under another name, then renamed: a reader needs
//!   no lock and never sees half of it.
//! - `lock` — held (flock(2)) by a process that changes the world, from reading it to having
//!   replaced it. The kernel releases it when the process dies.
//! - `credentials.json` — the key that requests must be signed with; mode 0600.
//!
//! A state file that cannot be read, or is of another format, is an error and is left as it is:
//! nothing is ever written over it.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::world::{VERSION, World};

/// Why the state cannot be used, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not JSON, or not in this program's format.
    #[error(
        "{path} is damaged ({cause}); nothing was changed. Bring the file back from a backup, or \
         move the directory away to begin with an empty one"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        cause: serde_json::Error,
    },
    /// The state file is gone, though the directory was in use.
    #[error(
        "{0} is missing, though this directory has been used; nothing was changed. Bring the file \
         back from a backup, or move the directory away to begin with an empty one"
    )]
    Lost(PathBuf),
    /// Written by a later version.
    #[error(
        "{path} was written by a newer xdrive (format {found}, this one knows {VERSION}): update xdrive"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u32,
    },
    /// Written by an earlier version, in a format that this one does not read.
    #[error(
        "{path} was written by an older xdrive (format {found}, this one knows {VERSION}); nothing \
         was changed. Finish its drives with that xdrive, or move the directory away to begin with \
         an empty one"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u32,
    },
    /// The operating system refused.
    #[error("cannot {what} {path}: {cause}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The operation's file.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
}

/// The key that requests to this directory are signed with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// `AKIA…`.
    pub access_key_id: String,
    /// 40 hexadecimal digits.
    pub secret_access_key: String,
}

impl Credentials {
    /// Those of the state directory `dir`, which has been used.
    pub(super) fn read(dir: &Path) -> Result<Self, StoreError> {
        Self::read_if_any(dir)?.ok_or_else(|| StoreError::Lost(dir.join(KEY)))
    }

    fn read_if_any(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(KEY);
        match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(key) => Ok(Some(key)),
                Err(cause) => Err(StoreError::Damaged { path, cause }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(StoreError::Io {
                what: "read",
                path,
                cause,
            }),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// The file of the credentials.
const KEY: &str = "credentials.json";

/// The prefix of files that are still being written.
const NEW: &str = ".new-";

/// The files of one state directory.
pub(super) struct Store {
    dir: PathBuf,
    /// Whether a change must survive a power cut: not on paper.
    durable: bool,
    /// The content last read or written: parsing it again would cost more than all else in a call.
    known: Mutex<Option<Known>>,
}

/// A state file's bytes, and the parsed world.
struct Known {
    bytes: Vec<u8>,
    world: Arc<World>,
}

/// The right to change the state; given back when dropped.
#[derive(Debug)]
pub(super) struct Lock {
    /// Closing it gives the lock back.
    _file: File,
}

impl Store {
    /// The store in `dir`, which is made (mode 0700) if it is not there.
    pub(super) fn new(dir: &Path, durable: bool) -> Result<Self, StoreError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|cause| StoreError::Io {
                what: "make",
                path: dir.to_owned(),
                cause,
            })?;
        Ok(Self {
            dir: dir.to_owned(),
            durable,
            known: Mutex::new(None),
        })
    }

    /// The state directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.dir.join("lock");
        let open = || {
            let file = File::options().create(true).append(true).open(&path)?;
            loop {
                match flock(&file, FlockOperation::LockExclusive) {
                    Err(rustix::io::Errno::INTR) => {}
                    outcome => break outcome?,
                }
            }
            Ok(file)
        };
        open()
            .map(|file| Lock { _file: file })
            .map_err(|cause| StoreError::Io {
                what: "lock",
                path: path.clone(),
                cause,
            })
    }

    /// Removes the files of processes that were killed while writing. Under the lock none writes.
    pub(super) fn cleanup(&self, _: &Lock) -> Result<(), StoreError> {
        let cleanup = || {
            for entry in fs::read_dir(&self.dir)? {
                let entry = entry?;
                if entry
                    .file_name()
                    .as_encoded_bytes()
                    .starts_with(NEW.as_bytes())
                {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        cleanup().map_err(|cause| StoreError::Io {
            what: "clean up",
            path: self.dir.clone(),
            cause,
        })
    }

    /// The world as it stands; `None` in a directory never used.
    pub(super) fn read(&self) -> Result<Option<Arc<World>>, StoreError> {
        #[derive(Deserialize)]
        struct Format {
            version: u32,
        }
        let path = self.state_path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return if self.dir.join(KEY).exists() {
                    Err(StoreError::Lost(path))
                } else {
                    Ok(None)
                };
            }
            Err(cause) => {
                return Err(StoreError::Io {
                    what: "read",
                    path,
                    cause,
                });
            }
        };
        let damaged = |cause| StoreError::Damaged {
            path: path.clone(),
            cause,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.bytes == bytes) {
            return Ok(Some(Arc::clone(&known.world)));
        }
        // Another format need not parse as this one; its number does.
        let format: Format = serde_json::from_slice(&bytes).map_err(damaged)?;
        match format.version {
            VERSION => {
                let world: World = serde_json::from_slice(&bytes).map_err(damaged)?;
                let world = Arc::new(world);
                *known = Some(Known {
                    bytes,
                    world: Arc::clone(&world),
                });
                Ok(Some(world))
            }
            found if found > VERSION => Err(StoreError::Newer { path, found }),
            found => Err(StoreError::Older { path, found }),
        }
    }

    /// Replaces the world, under the lock.
    pub(super) fn write(&self, _: &Lock, world: &World) -> Result<(), StoreError> {
        let path = self.state_path();
        let bytes = serde_json::to_vec(world).map_err(|cause| StoreError::Damaged {
            path: path.clone(),
            cause,
        })?;
        self.replace(&path, &bytes, 0o644)?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Known {
            bytes,
            world: Arc::new(world.clone()),
        });
        Ok(())
    }

    /// The credentials of this directory, made on first use.
    pub(super) fn credentials(&self, _: &Lock) -> Result<Credentials, StoreError> {
        if let Some(known) = Credentials::read_if_any(&self.dir)? {
            return Ok(known);
        }
        let path = self.dir.join(KEY);
        let io = |cause| StoreError::Io {
            what: "write",
            path: path.clone(),
            cause,
        };
        let mut random = [0; 28];
        getrandom::fill(&mut random).map_err(|error| io(error.into()))?;
        let digits = hex::encode(random);
        let credentials = Credentials {
            access_key_id: format!("AKIA{}", digits[..16].to_uppercase()),
            secret_access_key: digits[16..].to_owned(),
        };
        let bytes =
            serde_json::to_vec_pretty(&credentials).map_err(|cause| StoreError::Damaged {
                path: path.clone(),
                cause,
            })?;
        self.replace(&path, &bytes, 0o600)?;
        Ok(credentials)
    }

    fn state_path(&self) -> PathBuf {
        self.dir.join("state.json")
    }

    fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), StoreError> {
        let write = || {
            let mut file = tempfile::Builder::new()
                .prefix(NEW)
                .permissions(Permissions::from_mode(mode))
                .tempfile_in(&self.dir)?;
            file.write_all(bytes)?;
            if self.durable {
                file.as_file().sync_all()?;
            }
            file.persist(path)?;
            if self.durable {
                File::open(&self.dir)?.sync_all()?;
            }
            Ok(())
        };
        write().map_err(|cause| StoreError::Io {
            what: "write",
            path: path.to_owned(),
            cause,
        })
    }
}
