//! An EC2 in a folder, and what is billed there.

use std::path::Path;

use xdrive::clock::Clock;
use xdrive::cloud::folder;
use xdrive::ec2::{InstanceState, LaunchOrder, Market, Tags, VolumeState};
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

/// The order of a spot instance that leaves to EC2 all that may be left to it.
pub fn launch_order(token: &str) -> LaunchOrder {
    LaunchOrder {
        client_token: token.to_owned(),
        image: "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
            .to_owned(),
        instance_type: "t3.medium".to_owned(),
        zone: None,
        subnet: None,
        public_address: false,
        root_device: None,
        groups: Vec::new(),
        instance_profile: None,
        market: Market::Spot,
        max_price: None,
        user_data: b"#!/bin/sh\n".to_vec(),
        tags: Tags::new(),
        root_tags: Tags::new(),
    }
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
