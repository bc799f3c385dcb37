//! An instance's folder in the state directory.
//!
//! ```text
//! DIR/instances/i-…/machine.json      what was launched (removed last: see `lock`)
//!                   supervisor.json   the supervisor's process
//!                   init.json         the instance's process 1, as the host counts
//!                   lock              held by the supervisor for as long as it lives
//!                   control           a FIFO: what the supervisor is asked to do
//!                   console           what the instance printed; kept when all else goes
//!                   supervisor.log    the supervisor's own stderr
//!                   lower upper work root   the overlay that is the root file system; or:
//!                   root.img          the disk that it is on (then `upper` waits to be put there)
//!                   imds/             what the metadata service answers, one file a path
//!                   pci/              the devices on the instance's bus, as sysfs shows them
//!                   attached/vol-…    a volume's device name, and from when on it is plugged in
//! ```

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process::Process;
use super::{Machine, PlaneError};
use xdrive_ground::clock::BootTime;

/// The folder of all instances' folders.
pub(super) fn all(dir: &Path) -> PathBuf {
    dir.join("instances")
}

/// The name of an instance's namespace, of its link and table in the router, and of its cgroups:
/// `xd-` and the last eight digits of its id (a link's name has at most 15 bytes).
pub(super) fn name_of(instance: &str) -> String {
    let digits = instance.strip_prefix("i-").unwrap_or(instance);
    let last = digits
        .get(digits.len().saturating_sub(8)..)
        .unwrap_or(digits);
    format!("xd-{last}")
}

/// How a volume is plugged into the instance, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plug {
    /// The requested device name.
    pub device: String,
    /// From when on the instance has the device.
    pub due: BootTime,
}

/// The folder of an instance.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
    name: String,
}

impl Folder {
    /// The folder of `instance` in the state directory `dir`, there or not.
    pub(super) fn new(dir: &Path, instance: &str) -> Self {
        Self {
            path: all(dir).join(instance),
            name: name_of(instance),
        }
    }

    /// The instance's [name](name_of) outside of it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn console(&self) -> PathBuf {
        self.path.join("console")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("supervisor.log")
    }

    pub(super) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    pub(super) fn metadata(&self) -> PathBuf {
        self.path.join("imds")
    }

    pub(super) fn attached(&self) -> PathBuf {
        self.path.join("attached")
    }

    pub(super) fn bus(&self) -> PathBuf {
        self.path.join("pci")
    }

    /// The layer of the root file system in which it differs from the machine tree.
    pub(super) fn upper(&self) -> PathBuf {
        self.path.join("upper")
    }

    /// The path of the root disk, whether the file exists or not.
    pub(super) fn disk(&self) -> PathBuf {
        self.path.join("root.img")
    }

    /// Makes it, for a machine that is about to be launched.
    pub(super) fn create(&self, machine: &Machine) -> Result<(), PlaneError> {
        // It has the user data and the root disk, whoever may look into the state directory.
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .with_context(|| format!("making the folder {}", self.path.display()))?;
        for folder in ["upper/etc", "work", "root", "imds", "attached"] {
            let folder = self.path.join(folder);
            fs::create_dir_all(&folder)
                .with_context(|| format!("making the folder {}", folder.display()))?;
        }
        for folder in ["upper", "upper/etc"] {
            // They become the instance's / and /etc, whatever the caller's umask is.
            fs::set_permissions(self.path.join(folder), Permissions::from_mode(0o755))
                .context("setting the mode of an instance's root")?;
        }
        if !machine.user_data.is_empty() {
            fs::write(self.metadata().join("user-data"), &machine.user_data)
                .context("writing the user data")?;
        }
        self.write("machine.json", machine)
    }

    /// The machine it was made for, without its user data; [`PlaneError::Gone`] if it was cleared.
    pub(super) fn machine(&self) -> Result<Machine, PlaneError> {
        self.read("machine.json")?.ok_or(PlaneError::Gone)
    }

    pub(super) fn set_supervisor(&self, process: Process) -> Result<(), PlaneError> {
        self.write("supervisor.json", &process)
    }

    pub(super) fn supervisor(&self) -> Result<Option<Process>, PlaneError> {
        self.read("supervisor.json")
    }

    /// [`PlaneError::Gone`] unless its supervisor lives, as it does while there is an instance,
    /// booted or not.
    pub(super) fn supervised(&self) -> Result<(), PlaneError> {
        let supervisor = self.supervisor()?.filter(|process| process.is_alive());
        supervisor.map(|_| ()).ok_or(PlaneError::Gone)
    }

    pub(super) fn set_init(&self, process: Process) -> Result<(), PlaneError> {
        self.write("init.json", &process)
    }

    /// Whether the instance ever had a process 1. True for one that was cleared, since most had.
    pub(super) fn has_booted(&self) -> Result<bool, PlaneError> {
        let init: Option<Process> = self.read("init.json")?;
        let machine: Option<Machine> = self.read("machine.json")?;
        Ok(init.is_some() || machine.is_none())
    }

    /// The instance's process 1; [`PlaneError::Gone`] unless it runs.
    pub(super) fn init(&self) -> Result<Process, PlaneError> {
        self.read::<Process>("init.json")?
            .filter(|init| init.is_alive())
            .ok_or(PlaneError::Gone)
    }

    /// The volumes that have a [`Plug`].
    pub(super) fn plugged(&self) -> Result<Vec<String>, PlaneError> {
        let read = || -> std::io::Result<Vec<String>> {
            fs::read_dir(self.attached())?
                .map(|record| {
                    let volume = record?.file_name().into_string();
                    volume.map_err(|name| {
                        std::io::Error::other(format!("{} is no volume", name.display()))
                    })
                })
                .collect()
        };
        match read() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            other => Ok(other.context("reading what is plugged in")?),
        }
    }

    pub(super) fn plug(&self, volume: &str) -> Result<Option<Plug>, PlaneError> {
        self.read(&format!("attached/{volume}"))
    }

    pub(super) fn set_plug(&self, volume: &str, plug: &Plug) -> Result<(), PlaneError> {
        self.write(&format!("attached/{volume}"), plug)
    }

    /// The lock that a living supervisor holds, if it is free; held until the file is dropped.
    /// [`PlaneError::Gone`] where there is no such folder.
    pub(super) fn lock(&self) -> Result<Option<File>, PlaneError> {
        let path = self.path.join("lock");
        let file = match File::options().create(true).append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(PlaneError::Gone),
            Err(error) => {
                return Err(anyhow::Error::new(error)
                    .context(format!("opening {}", path.display()))
                    .into());
            }
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(anyhow::Error::new(error)
                .context(format!("locking {}", path.display()))
                .into()),
        }
    }

    /// The last lines of the supervisor's log, to be shown below an error, each on its own line.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let mut lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.push("");
        lines.reverse();
        lines.join("\n  ")
    }

    /// Empties it, but for the console. `machine.json` goes first: a supervisor that gets the lock
    /// after this finds nothing to run.
    pub(super) fn empty(&self) -> Result<(), PlaneError> {
        let remove = |path: PathBuf| -> anyhow::Result<()> {
            let gone = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            match gone {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("removing {}", path.display()))
                }
                _ => Ok(()),
            }
        };
        remove(self.path.join("machine.json"))?;
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(anyhow::Error::new(error).into()),
        };
        for entry in entries {
            let entry = entry.context("reading an instance's folder")?;
            if entry.file_name() != "console" {
                remove(entry.path())?;
            }
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PlaneError> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(json) => Ok(Some(
                serde_json::from_slice(&json)
                    .with_context(|| format!("reading {}", path.display()))?,
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(anyhow::Error::new(error)
                .context(format!("reading {}", path.display()))
                .into()),
        }
    }

    /// Writes a file and moves it into place: a reader sees all of it or nothing.
    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), PlaneError> {
        let write = || -> anyhow::Result<()> {
            let new = self.path.join(format!("{}.new", name.replace('/', "-")));
            fs::write(&new, serde_json::to_vec(value)?)?;
            fs::rename(new, self.path.join(name))?;
            Ok(())
        };
        write().with_context(|| format!("writing {name} of {}", self.path.display()))?;
        Ok(())
    }
}
