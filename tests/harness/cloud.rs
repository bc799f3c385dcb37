//! An EC2 in a folder, and what is billed there.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use xdrive::clock::Clock;
use xdrive::cloud::folder;
use xdrive::ec2::{
    Ec2, InstanceState, LaunchOrder, Market, SnapshotState, Speed, Tags, Volume, VolumeOrder,
    VolumeState, Zone,
};
use xdrive::ids::{SnapshotId, VolumeId};
use xdrive::local::plane::RealPlane;
use xdrive::local::{Local, OpenOptions};

use crate::home::{cache, program};

/// The time between two looks.
const AGAIN: Duration = Duration::from_millis(20);

/// The machines and disks of the state directory `dir`.
pub fn plane(dir: &Path) -> RealPlane {
    RealPlane::new(dir.to_owned(), program(), cache().join("local"))
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
        reservation: None,
        user_data: b"#!/bin/sh\n".to_vec(),
        tags: Tags::new(),
        root_tags: Tags::new(),
        interface_tags: Tags::new(),
    }
}

/// The order of a volume of 8 GiB with these tags; of one token EC2 makes one.
pub fn volume_order(token: &str, tags: Tags) -> VolumeOrder {
    VolumeOrder {
        client_token: token.to_owned(),
        zone: Zone("us-east-1a".to_owned()),
        size: 8,
        snapshot: None,
        speed: Speed::default(),
        tags,
    }
}

/// Tags of these pairs.
pub fn tags(pairs: &[(&str, &str)]) -> Tags {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Makes a volume, and waits until it can be used.
pub async fn made_volume(ec2: &Ec2, order: &VolumeOrder) -> anyhow::Result<VolumeId> {
    let id = ec2.create_volume(order).await?.id;
    until_available(ec2, &id).await?;
    Ok(id)
}

/// The volume, once it can be used.
pub async fn until_available(ec2: &Ec2, id: &VolumeId) -> anyhow::Result<Volume> {
    loop {
        let volume = ec2.volume(id).await?.context("no volume")?;
        if volume.state == VolumeState::Available {
            return Ok(volume);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Makes a snapshot, and waits until it is completed.
pub async fn made_snapshot(ec2: &Ec2, of: &VolumeId, tags: &Tags) -> anyhow::Result<SnapshotId> {
    let id = ec2.create_snapshot(of, tags).await?.id;
    while ec2.snapshot(&id).await?.context("no snapshot")?.state != SnapshotState::Completed {
        tokio::time::sleep(AGAIN).await;
    }
    Ok(id)
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
