//! The life of a drive, call by call, with both tables of delays.

use xdrive::ec2::{AttachmentState, Ec2, InstanceState, Market, SnapshotState, VolumeState, Zone};
use xdrive::ids::{InstanceId, SnapshotId, VolumeId};
use xdrive::local::Preset;

use super::{DEVICE, ZONE, drive, launch_order, tags, until, volume_order};
use crate::folder::Folder;
use harness::evidence::{may_delete, may_prune, may_terminate};

#[tokio::test(start_paused = true)]
async fn a_drive_lives_with_fast_delays() {
    a_drive_lives(Preset::Fast).await;
}

#[tokio::test(start_paused = true)]
async fn a_drive_lives_with_the_delays_of_aws() {
    a_drive_lives(Preset::Aws).await;
}

async fn a_drive_lives(delays: Preset) {
    let folder = Folder::delayed(delays);
    let ec2 = &folder.ec2;
    let instance = Box::pin(launched(ec2)).await;
    let volume = Box::pin(attached(ec2, &instance)).await;
    let snapshot = Box::pin(saved(ec2, &instance, &volume)).await;
    Box::pin(restored(ec2, &snapshot)).await;
}

async fn launched(ec2: &Ec2) -> InstanceId {
    let launched = ec2.launch(&launch_order("one")).await.unwrap();
    assert_eq!(launched.state, InstanceState::Pending);
    assert_eq!(launched.market, Market::Spot);
    assert_eq!(launched.zone, Zone(ZONE.to_owned()));
    assert_eq!(launched.instance_type, "t3.medium");
    assert!(launched.image.starts_with("ami-"), "{}", launched.image);
    assert_eq!(launched.tags, tags(&[("xdrive:session", "s1")]));
    let again = ec2.launch(&launch_order("one")).await.unwrap();
    assert_eq!(again.id, launched.id, "the token makes it one launch");
    let id = launched.id;
    let running = until("running", || in_state(ec2, &id, InstanceState::Running)).await;
    assert!(running.address.is_some());

    // Its root disk is tagged from the start, and among the drive's volumes.
    let root = until("the root disk", async || {
        ec2.volumes(&drive()).await.unwrap().pop()
    })
    .await;
    assert_eq!(root.tags, tags(&[("xdrive:root", "yes")]));
    assert_eq!(root.attachment.unwrap().instance, id);
    id
}

async fn attached(ec2: &Ec2, instance: &InstanceId) -> VolumeId {
    let made = ec2.create_volume(&volume_order("vol")).await.unwrap();
    assert_eq!((made.size, made.snapshot, made.attachment), (8, None, None));
    let id = made.id;
    until("available", || volume_in(ec2, &id, VolumeState::Available)).await;
    let generation = tags(&[("xdrive:generation", "1")]);
    ec2.tag(id.as_str(), &generation).await.unwrap();
    ec2.attach(&id, instance, DEVICE).await.unwrap();
    let attached = until("attached", async || {
        let attachment = ec2.volume(&id).await.unwrap()?.attachment?;
        (attachment.state == AttachmentState::Attached).then_some(attachment)
    })
    .await;
    assert_eq!((&attached.instance, &*attached.device), (instance, DEVICE));
    assert!(!attached.delete_on_termination);
    ec2.keep_on_termination(instance, DEVICE).await.unwrap();
    let seen = until("the mapping", async || {
        let mut mappings = ec2.instance(instance).await.unwrap()?.mappings.into_iter();
        mappings.find(|mapping| mapping.volume == id)
    })
    .await;
    assert_eq!((&*seen.device, seen.delete_on_termination), (DEVICE, false));
    id
}

async fn saved(ec2: &Ec2, instance: &InstanceId, volume: &VolumeId) -> SnapshotId {
    let wanted = tags(&[("xdrive:op", "1"), ("xdrive:generation", "1")]);
    let taken = ec2.create_snapshot(volume, &wanted).await.unwrap();
    assert_eq!(taken.state, SnapshotState::Pending);
    assert_eq!((taken.volume.as_ref(), taken.size), (Some(volume), 8));
    assert_eq!(taken.tags, wanted);
    let id = taken.id;
    ec2.detach(volume, instance).await.unwrap();
    let free = || volume_in(ec2, volume, VolumeState::Available);
    until("detached", free).await;
    ec2.terminate(may_terminate(instance)).await.unwrap();
    until("completed", async || {
        let mut found = ec2.snapshots(&drive()).await.unwrap().into_iter();
        found.find(|found| found.id == id && found.state == SnapshotState::Completed)
    })
    .await;
    let over = || in_state(ec2, instance, InstanceState::Terminated);
    until("terminated", over).await;
    ec2.delete_volume(may_delete(volume)).await.unwrap();
    until("no volume", async || {
        let left = ec2.volumes(&drive()).await.unwrap();
        left.is_empty().then_some(())
    })
    .await;
    assert_eq!(ec2.volume(volume).await.unwrap(), None);
    ec2.delete_volume(may_delete(volume))
        .await
        .expect("gone is done");

    // Terminated instances stay listed, with their tags.
    let left = ec2.instances(&drive()).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].state, InstanceState::Terminated);
    assert_eq!(left[0].tags, tags(&[("xdrive:session", "s1")]));
    id
}

async fn restored(ec2: &Ec2, snapshot: &SnapshotId) {
    let mut order = volume_order("restored");
    order.snapshot = Some(snapshot.clone());
    order.size = 9;
    order.zone = Zone("us-east-1c".to_owned());
    let made = ec2.create_volume(&order).await.unwrap();
    assert_eq!(made.snapshot.as_ref(), Some(snapshot));
    assert_eq!((made.size, &made.zone), (9, &order.zone));
    let ready = || volume_in(ec2, &made.id, VolumeState::Available);
    until("restored", ready).await;
    ec2.delete_volume(may_delete(&made.id)).await.unwrap();
    ec2.delete_snapshot(may_prune(snapshot)).await.unwrap();
    until("no snapshot", async || {
        let left = ec2.snapshot(snapshot).await.unwrap();
        left.is_none().then_some(())
    })
    .await;
    ec2.delete_snapshot(may_prune(snapshot))
        .await
        .expect("gone is done");
}

async fn in_state(
    ec2: &Ec2,
    id: &InstanceId,
    state: InstanceState,
) -> Option<xdrive::ec2::Instance> {
    ec2.instance(id)
        .await
        .unwrap()
        .filter(|instance| instance.state == state)
}

async fn volume_in(ec2: &Ec2, id: &VolumeId, state: VolumeState) -> Option<xdrive::ec2::Volume> {
    ec2.volume(id)
        .await
        .unwrap()
        .filter(|volume| volume.state == state)
}
