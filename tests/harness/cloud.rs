//! An EC2 in a folder, and what is billed there.

use std::path::Path;

use xdrive::clock::Clock;
use xdrive::cloud::folder;
use xdrive::ec2::{InstanceState, VolumeState};
use xdrive::local::plane::RealPlane;
use xdrive::local::{Local, OpenOptions};

use crate::home::{cache, program};

/// The machines and disks of the state directory `dir`.
pub fn plane(dir: &Path) -> RealPlane {
    RealPlane {
        dir: dir.to_owned(),
        program: program(),
        cache: cache().join("local"),
    }
}

/// The EC2 in the state directory `dir`, on the plane that its settings ask for.
pub fn open(dir: &Path) -> anyhow::Result<Local> {
    Local::open(OpenOptions::from_settings(plane(dir), Clock::system())?)
}

/// The ids of all instances, volumes and snapshots, without instances that are shutting down and
/// volumes that are being deleted.
pub fn left(local: &Local) -> Vec<String> {
    let ec2 = folder::ec2(local);
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let (instances, volumes, snapshots) = runtime.block_on(ec2.everything()).unwrap();
    let over = [InstanceState::ShuttingDown, InstanceState::Terminated];
    let gone = [VolumeState::Deleting, VolumeState::Deleted];
    let instances = instances.iter().filter(|it| !over.contains(&it.state));
    let volumes = volumes.iter().filter(|it| !gone.contains(&it.state));
    instances
        .map(|it| it.id.to_string())
        .chain(volumes.map(|it| it.id.to_string()))
        .chain(snapshots.iter().map(|it| it.id.to_string()))
        .collect()
}
