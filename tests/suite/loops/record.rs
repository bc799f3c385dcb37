//! The tags that record what a session launched.

use xdrive::drive::pools::{Requirements, image_of};
use xdrive::drive::stuck::Head;
use xdrive::drive::tags::{Leaving, Record, Settings};
use xdrive::ec2::Arch;

use harness::simulation::life::Past;
use harness::simulation::{Ask, FRESH, World, drive};

#[tokio::test(start_paused = true)]
async fn the_image_asked_for_is_on_the_instance_and_the_one_used_with_the_architecture_on_the_drive()
 {
    for past in [Past::New, Past::Saved, Past::Crashed] {
        let world = World::with_past(past, FRESH).await;
        world.saves(Ask::Session(2)).await;
        let name = drive();
        let instances = world.truth.instances(&name).await.unwrap();
        let instance = instances.iter().max_by_key(|it| it.launched).unwrap();
        assert_eq!(instance.tags["xdrive:ami"], image_of(Arch::X86_64, false));
        let snapshots = world.truth.snapshots(&name).await.unwrap();
        let newest = snapshots.iter().max_by_key(|it| it.started).unwrap();
        assert_eq!(newest.tags["xdrive:ami"], instance.image, "{past:?}");
        assert!(instance.image.starts_with("ami-"), "{instance:?}");
        assert_eq!(newest.tags["xdrive:arch"], instance.arch.unwrap().as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn settings_chosen_for_a_drive_are_recorded_also_on_a_volume_that_was_there_before() {
    for past in [Past::New, Past::Saved, Past::Crashed, Past::Alive] {
        let world = World::with_past(past, FRESH).await;
        let requirements: Requirements = "m5.large,t3.medium".parse().unwrap();
        *world.settings.borrow_mut() = Settings::new(Some("busybox"), Some(&requirements), None);
        world.saves(Ask::Session(2)).await;
        *world.settings.borrow_mut() = Settings::default();
        world.saves(Ask::Session(3)).await;
        let snapshots = world.truth.snapshots(&drive()).await.unwrap();
        let newest = snapshots.iter().max_by_key(|it| it.started).unwrap();
        let own = Settings::read(&newest.tags);
        assert_eq!(own.requirements().unwrap(), Some(requirements), "{past:?}");
        let image = own.image().unwrap().unwrap();
        assert_eq!(image.as_str(), "busybox", "{past:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_price_of_a_former_host_does_not_stay() {
    let world = World::with_past(Past::Crashed, FRESH).await;
    let volumes = world.truth.volumes(&drive()).await.unwrap();
    let volume = volumes
        .iter()
        .find(|it| it.tags.contains_key("xdrive:generation"));
    let spot = [("xdrive:price".to_owned(), "0.5".to_owned())].into();
    let volume = &volume.unwrap().id;
    world.truth.tag(volume.as_str(), &spot).await.unwrap();
    world.saves(Ask::Session(2)).await;
    let snapshots = world.truth.snapshots(&drive()).await.unwrap();
    let newest = snapshots.iter().max_by_key(|it| it.started).unwrap();
    let record = Record::read(&newest.tags);
    assert!(record.host.is_some_and(|host| host.contains("on demand")));
    assert_eq!(record.price, None);
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_drive_that_was_renamed_once_is_not_being_renamed() {
    let world = World::with_past(Past::Saved, FRESH).await;
    world.saves(Ask::Session(2)).await;
    let snapshots = world.truth.snapshots(&drive()).await.unwrap();
    let renamed = [("xdrive:renaming".to_owned(), "demo".to_owned())].into();
    for snapshot in &snapshots {
        world
            .truth
            .tag(snapshot.id.as_str(), &renamed)
            .await
            .unwrap();
    }
    let oldest = snapshots.into_iter().min_by_key(|it| it.started).unwrap();
    let from = Ask::From(Head::Snapshot(oldest.id), 3);
    world.saves(from).await;
    let forks = world
        .truth
        .snapshots(&"demo.fork-1".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(forks.len(), 1);
    assert_eq!(Leaving::read(&forks[0].tags), None);
}
