//! What stands behind the API: paper (states only), or real machines and disks.
//!
//! ```text
//! launch ─ supervisor (one process an instance) ─┬─ guest (namespaces, root, systemd)
//!                                                ├─ network (a veth pair, one address)
//!                                                ├─ metadata (169.254.169.254 inside)
//!                                                └─ console
//! attach, detach ─ disk (loop devices) ─ copies (one file a volume or snapshot, reflinks)
//! ```
//!
//! Everything of an instance is named after it and lives in its folder, so that whoever comes
//! after a kill, at any moment, finds and removes what is left. Nothing here decides what *should*
//! exist: records are the store's. Nor does it wait: what comes later (a boot, a device, a power cut)
//! is left to the instance's supervisor. Nothing runs on: the supervisor ends with its instance, the
//! instance with its supervisor.

mod blocks;
mod cgroup;
mod console;
mod copies;
mod disk;
mod folder;
mod gpu;
mod guest;
mod host_lock;
mod images;
mod lifecycle;
mod loops;
mod machine;
mod metadata;
mod network;
mod order;
mod paper;
mod power;
mod process;
mod program;
mod root;
mod sent_keys;
mod supervisor;
mod sweep;

use std::path::PathBuf;
use std::time::Duration;

pub use blocks::BLOCK;
pub use gpu::{Driver, Gpu};
pub use paper::PaperSuperblock;
use process::Process;
pub use supervisor::supervise;

use crate::clock::BootTime;

/// A machine to bring up.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// `i-…`.
    pub instance: String,
    /// The tree it runs (`ami-…`, as `DescribeImages` lists it).
    pub image: String,
    /// Its instance type: for the metadata service, and for the names of its disks.
    pub instance_type: String,
    /// Its zone, for the metadata service.
    pub zone: String,
    /// User data, decoded from base64; may be gzip.
    #[serde(skip)]
    pub user_data: Vec<u8>,
    /// Whether the metadata service demands session tokens.
    pub tokens_required: bool,
    /// The caller's account, for the instance identity document.
    pub account: String,
    /// What stands in for its GPU, if its type has one.
    #[serde(default)]
    pub gpu: Option<Gpu>,
    /// The address ranges of its VPC, for the metadata service.
    pub vpc_cidrs: Vec<String>,
    /// When it boots; at once if that is over by the time that all else is ready.
    pub boots: BootTime,
}

/// Why the plane could not do it.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The machine still has the volume open or mounted.
    #[error("the instance still uses the volume")]
    Busy,
    /// There is no room for it.
    #[error("no space left in {0}")]
    Full(PathBuf),
    /// The machine is not there any more.
    #[error("the instance is not running")]
    Gone,
    /// A prerequisite is missing on this computer; the text says which and what to do.
    #[error("{0}")]
    Missing(String),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// The data plane of one state directory.
#[derive(Debug, Clone)]
pub enum Plane {
    /// States only: no process, no disk.
    Paper,
    /// Namespaces, loop devices and files below the directory.
    Real(RealPlane),
}

/// The real one.
#[derive(Debug, Clone)]
pub struct RealPlane {
    /// The state directory.
    pub dir: PathBuf,
    /// The `xdrive` program that supervises instances.
    pub program: PathBuf,
    /// Where machine trees and images are cached.
    pub cache: PathBuf,
}

/// A machine that is up.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Up {
    /// Its address, reachable from this computer.
    pub address: std::net::Ipv4Addr,
    /// The supervisor's process id.
    pub supervisor: u32,
    /// The supervisor's start time (field 22 of `/proc/PID/stat`): a pid alone is reused.
    pub started: u64,
}

impl Plane {
    /// Whether this computer has what instances and volumes in this directory are made with;
    /// [`PlaneError::Missing`] names all that it has not. Changes nothing.
    pub fn check(&self) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.check(),
        }
    }

    /// Brings `machine` up: returns once its process 1 runs, before it has booted; or, where it is
    /// to boot later than in a moment, once nothing but that is left to do. Its metadata service
    /// answers already.
    ///
    /// A machine whose launch fails leaves nothing behind but its console. One that fails to boot
    /// later is not up any more; its console says why.
    pub fn launch(&self, machine: &Machine) -> Result<Up, PlaneError> {
        match self {
            Self::Paper => Ok(Up {
                address: std::net::Ipv4Addr::LOCALHOST,
                supervisor: 0,
                started: 0,
            }),
            Self::Real(real) => real.launch(machine),
        }
    }

    /// Whether its supervisor is alive. A paper machine is up for as long as its record says so.
    #[must_use]
    pub fn is_up(&self, up: &Up) -> bool {
        match self {
            Self::Paper => true,
            Self::Real(_) => Process::of(up).is_alive(),
        }
    }

    /// Whether the instance, up or not, ever booted; one that was cleared passes for one that did,
    /// and so does one of paper.
    pub fn has_booted(&self, instance: &str) -> Result<bool, PlaneError> {
        match self {
            Self::Paper => Ok(true),
            Self::Real(real) => real.folder(instance).has_booted(),
        }
    }

    /// Ends the instance: an orderly shutdown inside, then by force after `grace`; at once if it
    /// has not booted yet. Returns at once; [`Plane::is_up`] tells when it is gone, and
    /// [`Plane::clear`] removes what it left. [`PlaneError::Gone`] where there is nothing to end.
    pub fn power_off(&self, instance: &str, grace: Duration) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.power_off(instance, grace),
        }
    }

    /// Lets the instance shut down in order, by force after `grace`, and come up again: on the same
    /// root disk, with the same address and volumes; its user data run again. Nothing happens to one
    /// that has not booted yet. Returns at once.
    /// [`PlaneError::Gone`] where there is nothing that runs.
    pub fn reboot(&self, instance: &str, grace: Duration) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.reboot(instance, grace),
        }
    }

    /// Whether this computer has what [`Plane::interrupt`] needs; [`PlaneError::Missing`] if not.
    pub fn can_interrupt(&self) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(_) => power::check(),
        }
    }

    /// Announces to the instance that it is taken back at `at`, which is `left` from now, and then
    /// cuts it off as a power cut does, if it still runs. Said twice, the earlier end holds.
    /// [`PlaneError::Gone`] where there is nothing to end.
    pub fn interrupt(
        &self,
        instance: &str,
        at: jiff::Timestamp,
        left: Duration,
    ) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.interrupt(instance, at, left),
        }
    }

    /// Tells the instance that it is at elevated risk of being interrupted, since `noticed`.
    pub fn recommend_rebalance(
        &self,
        instance: &str,
        noticed: jiff::Timestamp,
    ) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.recommend_rebalance(instance, noticed),
        }
    }

    /// Removes everything an ended instance could have left: processes, mounts, loop devices,
    /// namespaces, cgroups, its folder except the console. Ends one that still runs, by force.
    /// Does nothing twice.
    pub fn clear(&self, instance: &str) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.clear(instance),
        }
    }

    /// An empty volume of `gib` GiB, or a copy of `snapshot` grown to that size.
    pub fn create_volume(
        &self,
        volume: &str,
        gib: u32,
        snapshot: Option<&str>,
    ) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.create_volume(volume, gib, snapshot),
        }
    }

    /// Plugs the volume into an instance that is up, under `device` and by id. The instance has the
    /// device from `due` on, at the latest when it has booted: when this returns if that is over,
    /// else by its supervisor's doing. Already plugged into this instance is success; said twice,
    /// the earlier moment holds.
    pub fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
        due: BootTime,
    ) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.attach(volume, instance, device, due),
        }
    }

    /// Unplugs it; [`PlaneError::Busy`] while the instance has it mounted or open. Not plugged in
    /// is success. A device that was not due yet never comes.
    pub fn detach(&self, volume: &str, instance: &str) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.detach(volume, instance),
        }
    }

    /// A point-in-time copy of the volume, live or not. Half a copy is never left under the
    /// snapshot's name.
    pub fn create_snapshot(&self, snapshot: &str, volume: &str) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.create_snapshot(snapshot, volume),
        }
    }

    /// Removes the volume's file; not there is success.
    pub fn delete_volume(&self, volume: &str) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.delete_copy(volume),
        }
    }

    /// Removes the snapshot's file; not there is success.
    pub fn delete_snapshot(&self, snapshot: &str) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.delete_copy(snapshot),
        }
    }

    /// The blocks of a snapshot that may hold something, in order; on paper there are none.
    pub fn blocks(&self, snapshot: &str) -> Result<Vec<u32>, PlaneError> {
        match self {
            Self::Paper => Ok(Vec::new()),
            Self::Real(real) => real.blocks(snapshot),
        }
    }

    /// One whole block of a snapshot; all zeros where nothing was ever written.
    pub fn block(&self, snapshot: &str, index: u32) -> Result<Vec<u8>, PlaneError> {
        match self {
            Self::Paper => Ok(vec![0; BLOCK]),
            Self::Real(real) => real.block(snapshot, index),
        }
    }

    /// What the instance wrote to its console, the last 64 KiB; kept after its end.
    pub fn console(&self, instance: &str) -> Result<Vec<u8>, PlaneError> {
        match self {
            Self::Paper => Ok(Vec::new()),
            Self::Real(real) => real.console(instance),
        }
    }

    /// `SendSSHPublicKey`: `key` logs `user` in for 60 seconds (EC2 user guide, *EC2 Instance
    /// Connect*).
    pub fn send_ssh_key(&self, instance: &str, user: &str, key: &str) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.send_ssh_key(instance, user, key),
        }
    }

    /// The images there are: (`ami-…`, name, built at), the one new instances should use first.
    pub fn images(&self) -> Result<Vec<(String, String, jiff::Timestamp)>, PlaneError> {
        match self {
            Self::Paper => Ok(Vec::new()),
            Self::Real(real) => images::list(&real.cache),
        }
    }

    /// Called at every opening with what the store says exists: removes files and machines that
    /// no record speaks of (a call killed half way), and unmounts what nobody uses. Consoles stay
    /// for an hour, as long as EC2 lists a terminated instance.
    pub fn sweep(
        &self,
        instances: &[&str],
        volumes: &[&str],
        snapshots: &[&str],
    ) -> Result<(), PlaneError> {
        match self {
            Self::Paper => Ok(()),
            Self::Real(real) => real.sweep(instances, volumes, snapshots),
        }
    }
}
