//! The data plane behind the API: paper (states only), or real machines and disks.
//!
//! ```text
//! launch ─ supervisor (one process an instance) ─┬─ guest (namespaces, root, systemd)
//!                                                ├─ network (a veth pair, one address), behind
//!                                                │  the router, with its firewall
//!                                                ├─ metadata (169.254.169.254 inside)
//!                                                ├─ the API (169.254.169.250 inside)
//!                                                └─ console
//! attach, detach ─ disk (loop devices) ─ copies (one file a volume or snapshot, reflinks)
//!                                      └ lazy (a process a volume whose blocks come late)
//! ```
//!
//! Everything of an instance is named after it and lives in its folder, so that after a kill at any
//! moment the next process finds and removes what is left. The plane does not decide what *should*
//! exist: the store's records do. It does not wait: the instance's supervisor does what is due
//! later (a boot, a device, a power cut). The supervisor ends with its instance, the instance with
//! its supervisor.

mod blocks;
mod cgroup;
mod console;
mod copies;
mod disk;
mod error;
mod firewall;
mod folder;
mod gpu;
mod guest;
mod guest_path;
mod host_lock;
mod images;
mod inside;
mod kept;
mod lazy;
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
mod real;
mod role;
mod root;
mod router;
mod sent_keys;
mod shares;
mod stamp;
mod supervisor;
mod sweep;
mod traces;
mod trial;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

pub use blocks::BLOCK;
pub use error::PlaneError;
pub use firewall::{Allowed, Firewall, Guarded, Origin};
pub use gpu::{Driver, Gpu};
pub use images::Image;
pub use inside::API_URL;
pub(crate) use lazy::serve as serve_volume;
pub use lazy::{Lazy, Source, Speed};
pub use machine::{Machine, Up};
pub(super) use network::ELASTIC;
pub use paper::{PaperPlane, PaperSuperblock};
pub(super) use program::{PATH, programs};
pub use real::RealPlane;
pub(super) use shares::make as make_share;
pub(super) use supervisor::supervise;
pub(super) use trial::refusals;

use xdrive_ground::clock::BootTime;

/// The data plane of one state directory.
pub trait Plane: fmt::Debug + Send + Sync {
    /// Whether its machines and disks are real. A state directory never changes its kind.
    fn is_real(&self) -> bool;

    /// Checks that this computer has all programs that instances and volumes need;
    /// [`PlaneError::Missing`] names those that it lacks. Changes nothing.
    fn check(&self) -> Result<(), PlaneError>;

    /// Brings `machine` up. Returns when its process 1 runs, before it has booted; or, if it boots
    /// later, when all but the boot is done. Its metadata service answers then.
    ///
    /// A machine whose launch fails leaves nothing behind but its console. One that fails to boot
    /// later is not up any more; its console has the reason.
    fn launch(&self, machine: &Machine) -> Result<Up, PlaneError>;

    /// Whether its supervisor is alive. A paper machine is always up: its record decides.
    #[must_use]
    fn is_up(&self, up: &Up) -> bool;

    /// Whether the instance, up or not, ever booted. True for one that was cleared, and on paper.
    fn has_booted(&self, instance: &str) -> Result<bool, PlaneError>;

    /// Ends the instance: an orderly shutdown inside, then by force after `grace`; at once if it
    /// has not booted yet. Returns at once: wait for [`Plane::is_up`], then call [`Plane::clear`].
    /// [`PlaneError::Gone`] where there is nothing to end.
    fn power_off(&self, instance: &str, grace: Duration) -> Result<(), PlaneError>;

    /// Reboots the instance: an orderly shutdown, by force after `grace`, then a boot from the same
    /// root disk, with the same address and volumes; its user data run again. Does nothing to one
    /// that has not booted yet. Returns at once. [`PlaneError::Gone`] where nothing runs.
    fn reboot(&self, instance: &str, grace: Duration) -> Result<(), PlaneError>;

    /// Checks that this computer has what [`Plane::interrupt`] needs; else [`PlaneError::Missing`].
    fn can_interrupt(&self) -> Result<(), PlaneError>;

    /// Announces to the instance its interruption at `at`, which is `left` from now, and cuts its
    /// power then, if it still runs. Of two interruptions the earlier holds.
    /// [`PlaneError::Gone`] where there is nothing to end.
    fn interrupt(&self, instance: &str, at: Timestamp, left: Duration) -> Result<(), PlaneError>;

    /// Announces to the instance that it is at elevated risk of interruption, since `noticed`.
    fn recommend_rebalance(&self, instance: &str, noticed: Timestamp) -> Result<(), PlaneError>;

    /// Lets reach the instances in `firewall` what that says, and nothing else; for all of them that
    /// are up, at once. A machine is open to all until this names it.
    fn guard(&self, firewall: &Firewall) -> Result<(), PlaneError>;

    /// Removes everything an ended instance could have left: processes, mounts, loop devices,
    /// namespaces, cgroups, its folder except the console. Ends one that still runs, by force.
    /// Harmless when repeated.
    fn clear(&self, instance: &str) -> Result<(), PlaneError>;

    /// An empty volume of `gib` GiB, or a copy of a snapshot grown to that size.
    fn create_volume(
        &self,
        volume: &str,
        gib: u32,
        source: Option<Source<'_>>,
    ) -> Result<(), PlaneError>;

    /// Makes the volume so large, also while it is plugged in. Harmless when repeated.
    fn grow_volume(&self, volume: &str, gib: u32) -> Result<(), PlaneError>;

    /// Plugs the volume into an instance that is up, under `device` and by id. The instance has the
    /// device from `due` on, or from its boot on if that is later: when this returns, or later
    /// through its supervisor. Already plugged into this instance is success; of two moments the
    /// earlier holds.
    fn attach(
        &self,
        volume: &str,
        instance: &str,
        device: &str,
        due: BootTime,
    ) -> Result<(), PlaneError>;

    /// Unplugs the volume; [`PlaneError::Busy`] while the instance has it mounted or open. Not
    /// plugged in is success. A device that is not due yet never comes.
    fn detach(&self, volume: &str, instance: &str) -> Result<(), PlaneError>;

    /// A point-in-time copy of the volume, in use or not, or of another snapshot. Half a copy is never left under the
    /// snapshot's name.
    fn create_snapshot(&self, snapshot: &str, volume: &str) -> Result<(), PlaneError>;

    /// Removes the volume's file; not there is success.
    fn delete_volume(&self, volume: &str) -> Result<(), PlaneError>;

    /// Removes the snapshot's file; not there is success.
    fn delete_snapshot(&self, snapshot: &str) -> Result<(), PlaneError>;

    /// Removes what is in a file system of EFS; nothing there is success.
    fn delete_file_system(&self, id: &str) -> Result<(), PlaneError>;

    /// The blocks of a snapshot that may hold data, in order; on paper there are none.
    fn blocks(&self, snapshot: &str) -> Result<Vec<u32>, PlaneError>;

    /// Reads a whole block of a snapshot; all zeros where nothing was ever written.
    fn block(&self, snapshot: &str, index: u32) -> Result<Vec<u8>, PlaneError>;

    /// The last 64 KiB that the instance wrote to its console; kept after its end.
    fn console(&self, instance: &str) -> Result<Vec<u8>, PlaneError>;

    /// `SendSSHPublicKey`: authorizes `key` to log in as `user` for 60 seconds (EC2 user guide,
    /// *EC2 Instance Connect*).
    fn send_ssh_key(&self, instance: &str, user: &str, key: &str) -> Result<(), PlaneError>;

    /// The images there are, the current one first.
    fn images(&self) -> Result<Vec<Image>, PlaneError>;

    /// Removes the files and machines that are not among these (of a killed call), and unmounts
    /// unused folders. Called at every opening, with everything that has a record. Consoles stay
    /// for an hour, as long as EC2 lists a terminated instance.
    fn sweep(
        &self,
        instances: &[&str],
        volumes: &[&str],
        snapshots: &[&str],
    ) -> Result<(), PlaneError>;
}
