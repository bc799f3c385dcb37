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
mod guest_path;
mod host_lock;
mod images;
mod lifecycle;
mod loops;
mod metadata;
mod network;
mod order;
mod paper;
mod power;
mod process;
mod program;
mod real;
mod root;
mod sent_keys;
mod supervisor;
mod sweep;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

pub use blocks::BLOCK;
pub use gpu::{Driver, Gpu};
pub use paper::{PaperPlane, PaperSuperblock};
pub use real::RealPlane;
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

/// An image that instances can run.
#[derive(Debug, Clone)]
pub struct Image {
    /// `ami-…`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was built.
    pub built: Timestamp,
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

/// The data plane of one state directory.
pub trait Plane: fmt::Debug + Send + Sync {
    /// Whether machines and disks are real: a directory holds one kind for good.
    fn is_real(&self) -> bool;

    /// Whether this computer has what instances and volumes in this directory are made with;
    /// [`PlaneError::Missing`] names all that it has not. Changes nothing.
    fn check(&self) -> Result<(), PlaneError>;

    /// Brings `machine` up: returns once its process 1 runs, before it has booted; or, where it is
    /// to boot later than in a moment, once nothing but that is left to do. Its metadata service
    /// answers already.
    ///
    /// A machine whose launch fails leaves nothing behind but its console. One that fails to boot
    /// later is not up any more; its console says why.
    fn launch(&self, machine: &Machine) -> Result<Up, PlaneError>;

    /// Whether its supervisor is alive. A paper machine is up for as long as its record says so.
    #[must_use]
    fn is_up(&self, up: &Up) -> bool;

    /// Whether the instance, up or not, ever booted; one that was cleared passes for one that did,
    /// and so does one of paper.
    fn has_booted(&self, instance: &str) -> Result<bool, PlaneError>;

    /// Ends the instance: an orderly shutdown inside, then by force after `grace`; at once if it
    /// has not booted yet. Returns at once; [`Plane::is_up`] tells when it is gone, and
    /// [`Plane::clear`] removes what it left. [`PlaneError::Gone`] where there is nothing to end.
    fn power_off(&self, instance: &str, grace: Duration) -> Result<(), PlaneError>;

    /// Lets the instance shut down in order, by force after `grace`, and come up again: on the same
    /// root disk, with the same address and volumes; its user data run again. Nothing happens to one
    /// that has not booted yet. Returns at once.
    /// [`PlaneError::Gone`] where there is nothing that runs.
    fn reboot(&self, instance: &str, grace: Duration) -> Result<(), PlaneError>;

    /// Whether this computer has what [`Plane::interrupt`] needs; [`PlaneError::Missing`] if not.
    fn can_interrupt(&self) -> Result<(), PlaneError>;

    /// Announces to the instance that it is taken back at `at`, which is `left` from now, and then
    /// cuts it off as a power cut does, if it still runs. Said twice, the earlier end holds.
    /// [`PlaneError::Gone`] where there is nothing to end.
    fn interrupt(&self, instance: &str, at: Timestamp, left: Duration) -> Result<(), PlaneError>;

    /// Tells the instance that it is at elevated risk of being interrupted, since `noticed`.
    fn recommend_rebalance(&self, instance: &str, noticed: Timestamp) -> Result<(), PlaneError>;

    /// Removes everything an ended instance could have left: processes, mounts, loop devices,
    /// namespaces, cgroups, its folder except the console. Ends one that still runs, by force.
    /// Does nothing twice.
    fn clear(&self, instance: &str) -> Result<(), PlaneError>;

    /// An empty volume of `gib` GiB, or a copy of `snapshot` grown to that size.
    fn create_volume(
        &self,
        volume: &str,
        gib: u32,
        snapshot: Option<&str>,
    ) -> Result<(), PlaneError>;

    /// Plugs the volume into an instance that is up, under `device` and by id. The instance has the
    /// device from `due` on, at the latest when it has booted: when this returns if that is over,
    /// else by its supervisor's doing. Already plugged into this instance is success; said twice,
    /// the earlier moment holds.
    fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
        due: BootTime,
    ) -> Result<(), PlaneError>;

    /// Unplugs it; [`PlaneError::Busy`] while the instance has it mounted or open. Not plugged in
    /// is success. A device that was not due yet never comes.
    fn detach(&self, volume: &str, instance: &str) -> Result<(), PlaneError>;

    /// A point-in-time copy of the volume, live or not. Half a copy is never left under the
    /// snapshot's name.
    fn create_snapshot(&self, snapshot: &str, volume: &str) -> Result<(), PlaneError>;

    /// Removes the volume's file; not there is success.
    fn delete_volume(&self, volume: &str) -> Result<(), PlaneError>;

    /// Removes the snapshot's file; not there is success.
    fn delete_snapshot(&self, snapshot: &str) -> Result<(), PlaneError>;

    /// The blocks of a snapshot that may hold something, in order; on paper there are none.
    fn blocks(&self, snapshot: &str) -> Result<Vec<u32>, PlaneError>;

    /// One whole block of a snapshot; all zeros where nothing was ever written.
    fn block(&self, snapshot: &str, index: u32) -> Result<Vec<u8>, PlaneError>;

    /// What the instance wrote to its console, the last 64 KiB; kept after its end.
    fn console(&self, instance: &str) -> Result<Vec<u8>, PlaneError>;

    /// `SendSSHPublicKey`: `key` logs `user` in for 60 seconds (EC2 user guide, *EC2 Instance
    /// Connect*).
    fn send_ssh_key(&self, instance: &str, user: &str, key: &str) -> Result<(), PlaneError>;

    /// The images there are, the one new instances should use first.
    fn images(&self) -> Result<Vec<Image>, PlaneError>;

    /// Called at every opening with what the store says exists: removes files and machines that
    /// no record speaks of (a call killed half way), and unmounts what nobody uses. Consoles stay
    /// for an hour, as long as EC2 lists a terminated instance.
    fn sweep(
        &self,
        instances: &[&str],
        volumes: &[&str],
        snapshots: &[&str],
    ) -> Result<(), PlaneError>;
}
