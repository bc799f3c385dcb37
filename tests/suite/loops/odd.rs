//! What the cloud does by itself in the middle of a session.

use std::time::Duration;

use xdrive::drive::Outcome;
use xdrive::drive::reconcile::RunError;
use xdrive::ec2::SnapshotState;
use xdrive::local::Fault;

use super::{Past, is_saved, world};
use crate::paper::{Ask, FRESH, Trouble, World};

/// Lets every pending snapshot fail, until so many have.
async fn break_snapshots(world: &World, count: usize) {
    let mut broken = std::collections::BTreeSet::new();
    while broken.len() < count {
        for snapshot in world.truth.snapshots("demo").await.unwrap() {
            if snapshot.state == SnapshotState::Pending {
                world.local().break_down(snapshot.id.as_str()).unwrap();
                broken.insert(snapshot.id);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_fails_twice_is_taken_a_third_time() {
    let world = world(Past::New, FRESH).await;
    let (told, ()) = tokio::join!(
        world.run(Ask::Session(2), Trouble::default()),
        break_snapshots(&world, 2)
    );
    assert!(is_saved(&told), "{told:#?}");
    assert_eq!(world.problems().await, Vec::<String>::new(), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_always_fails_leaves_the_volume_and_says_so() {
    let world = world(Past::New, FRESH).await;
    let (told, ()) = tokio::join!(
        world.run(Ask::Session(2), Trouble::default()),
        break_snapshots(&world, 3)
    );
    let Some(Outcome::Stuck(stuck)) = &told.outcome else {
        panic!("{told:#?}")
    };
    let volumes = world.truth.volumes("demo").await.unwrap();
    assert_eq!(volumes.len(), 1, "{volumes:#?}");
    let command = format!("xdrive connect demo --from {}", volumes[0].id);
    assert_eq!(stuck.commands(&"demo".parse().unwrap()), [command]);
    // The next run has three tries of its own.
    let told = world.run(Ask::Session(3), Trouble::default()).await;
    assert!(is_saved(&told), "{told:#?}");
    assert_eq!(world.problems().await, Vec::<String>::new(), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn no_capacity_anywhere_leaves_everything_as_it_was() {
    for past in [Past::New, Past::Saved, Past::Crashed] {
        let world = world(past, FRESH).await;
        world
            .local()
            .plant(Fault::no_capacity("t3.medium", 1))
            .unwrap();
        let told = world.run(Ask::Session(2), Trouble::default()).await;
        let Some(Outcome::Failed(failure)) = &told.outcome else {
            panic!("{told:#?}")
        };
        assert!(
            matches!(failure.error, RunError::NoCapacity { .. }),
            "{told:#?}"
        );
        assert!(
            matches!(failure.also.as_deref(), Some(Outcome::Unwound { .. })),
            "{told:#?}"
        );
        let after = world.run(Ask::Session(3), Trouble::default()).await;
        assert!(is_saved(&after), "{after:#?}");
        assert_eq!(world.problems().await, Vec::<String>::new(), "{after:#?}");
    }
}
