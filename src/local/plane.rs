//! What stands behind the API: paper (states only), or real machines and disks.

use std::path::PathBuf;

/// A machine to bring up.
#[derive(Debug, Clone)]
pub struct Machine {
    /// `i-…`.
    pub instance: String,
    /// The tree it runs (`ami-…`, as `DescribeImages` lists it).
    pub image: String,
    /// Its instance type, for the metadata service.
    pub instance_type: String,
    /// Its zone, for the metadata service.
    pub zone: String,
    /// User data, decoded from base64; may be gzip.
    pub user_data: Vec<u8>,
    /// Whether the metadata service demands session tokens.
    pub tokens_required: bool,
    /// The caller's account, for the instance identity document.
    pub account: String,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Up {
    /// Its address, reachable from this computer.
    pub address: std::net::Ipv4Addr,
    /// The supervisor's process id.
    pub supervisor: u32,
    /// The supervisor's start time (field 22 of `/proc/PID/stat`): a pid alone is reused.
    pub started: u64,
}

impl Plane {
    /// Brings `machine` up: returns once its supervisor runs, before it has booted.
    pub fn launch(&self, machine: &Machine) -> Result<Up, PlaneError> {
        let _ = machine;
        todo!()
    }

    /// Whether its supervisor is alive.
    #[must_use]
    pub fn is_up(&self, up: &Up) -> bool {
        let _ = up;
        todo!()
    }

    /// Ends the instance: an orderly shutdown inside, then by force after `grace`. Returns at
    /// once; [`Plane::is_up`] tells when it is gone, and [`Plane::clear`] removes what it left.
    pub fn power_off(&self, instance: &str, grace: std::time::Duration) -> Result<(), PlaneError> {
        let _ = (instance, grace);
        todo!()
    }

    /// Removes everything an ended instance could have left: processes, mounts, loop devices,
    /// namespaces, cgroups, its folder except the console. Does nothing twice.
    pub fn clear(&self, instance: &str) -> Result<(), PlaneError> {
        let _ = instance;
        todo!()
    }

    /// An empty volume of `gib` GiB, or a copy of `snapshot` grown to that size.
    pub fn create_volume(
        &self,
        volume: &str,
        gib: u32,
        snapshot: Option<&str>,
    ) -> Result<(), PlaneError> {
        let _ = (volume, gib, snapshot);
        todo!()
    }

    /// Plugs the volume into a running instance, under `device` and by id.
    pub fn attach(&self, volume: &str, instance: &str, device: &str) -> Result<(), PlaneError> {
        let _ = (volume, instance, device);
        todo!()
    }

    /// Unplugs it; [`PlaneError::Busy`] while the instance has it mounted or open.
    pub fn detach(&self, volume: &str, instance: &str) -> Result<(), PlaneError> {
        let _ = (volume, instance);
        todo!()
    }

    /// A point-in-time copy of the volume, live or not. Half a copy is never left under the
    /// snapshot's name.
    pub fn create_snapshot(&self, snapshot: &str, volume: &str) -> Result<(), PlaneError> {
        let _ = (snapshot, volume);
        todo!()
    }

    /// Removes the volume's file; not there is success.
    pub fn delete_volume(&self, volume: &str) -> Result<(), PlaneError> {
        let _ = volume;
        todo!()
    }

    /// Removes the snapshot's file; not there is success.
    pub fn delete_snapshot(&self, snapshot: &str) -> Result<(), PlaneError> {
        let _ = snapshot;
        todo!()
    }

    /// What the instance wrote to its console, the last 64 KiB; kept after its end.
    pub fn console(&self, instance: &str) -> Result<Vec<u8>, PlaneError> {
        let _ = instance;
        todo!()
    }

    /// `SendSSHPublicKey`: `key` logs `user` in for 60 seconds.
    pub fn send_ssh_key(&self, instance: &str, user: &str, key: &str) -> Result<(), PlaneError> {
        let _ = (instance, user, key);
        todo!()
    }

    /// The images there are: (`ami-…`, name, built at).
    pub fn images(&self) -> Result<Vec<(String, String, jiff::Timestamp)>, PlaneError> {
        todo!()
    }

    /// Called at every opening with what the store says exists: removes files and machines that
    /// no record speaks of (a call killed half way), and unmounts what nobody uses.
    pub fn sweep(
        &self,
        instances: &[&str],
        volumes: &[&str],
        snapshots: &[&str],
    ) -> Result<(), PlaneError> {
        let _ = (instances, volumes, snapshots);
        todo!()
    }
}

/// The supervisor of one instance: launched by [`Plane::launch`] as its own process, it brings
/// the instance up, serves its metadata, and clears up when it ends.
pub fn supervise(
    dir: &std::path::Path,
    cache: &std::path::Path,
    instance: &str,
) -> anyhow::Result<()> {
    let _ = (dir, cache, instance);
    todo!()
}
