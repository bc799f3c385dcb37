//! Checkpoints in a session: pruned while it lasts, deleted after its save, and their use for a
//! drive whose volume is lost.

use xdrive::drive::stuck::Why;
use xdrive::drive::{Event, Outcome};

use harness::simulation::life::Past;
use harness::simulation::{Ask, FRESH, Trouble, World, drive};

async fn checkpoints(world: &World) -> usize {
    let snapshots = world.truth.snapshots(&drive()).await.unwrap();
    let is_checkpoint = |kind: &String| kind == "checkpoint";
    snapshots
        .iter()
        .filter(|snapshot| snapshot.tags.get("xdrive:kind").is_some_and(is_checkpoint))
        .count()
}

fn asked(times: usize, killed: bool) -> Ask {
    Ask::Checkpoints {
        note: 2,
        times,
        killed,
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_last_ones_stay_and_none_after_the_save() {
    let world = World::with_past(Past::Saved, FRESH).await;
    let report = world.run(asked(5, true), Trouble::default()).await;
    let taken = report
        .events
        .iter()
        .filter(|event| matches!(event, Event::Checkpoint { .. }))
        .count();
    // The newest two that were completed when the last one was taken, and that one.
    assert_eq!((taken, checkpoints(&world).await), (5, 3), "{report:#?}");
    let after = world.saves(Ask::Stop).await;
    // After a minute: deleted snapshots stay listed for a moment.
    assert_eq!(world.problems().await, Vec::<String>::new(), "{after:#?}");
    assert_eq!(checkpoints(&world).await, 0, "{after:#?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_volume_wins_over_its_checkpoint() {
    let world = World::with_past(Past::New, FRESH).await;
    world.run(asked(1, true), Trouble::default()).await;
    world.cut_power().await;
    let after = world.saves(Ask::Session(3)).await;
    assert_eq!(world.problems().await, Vec::<String>::new(), "{after:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_something_else_keeps_the_volume_and_the_way_out_works() {
    let world = World::with_past(Past::New, FRESH).await;
    let (report, ()) = tokio::join!(
        world.run(Ask::Session(2), Trouble::default()),
        exchange_the_snapshot(&world)
    );
    let Some(Outcome::Stuck(stuck)) = &report.outcome else {
        panic!("{report:#?}")
    };
    assert!(matches!(stuck.why, Why::Unsound { .. }), "{report:#?}");
    let volumes = world.truth.volumes(&drive()).await.unwrap();
    assert_eq!(volumes.len(), 1, "{volumes:#?}");
    let way = format!("xdrive connect demo --from {}", volumes[0].id);
    assert_eq!(stuck.commands(&drive()), [way]);
    let head = volumes[0].id.to_string().parse().unwrap();
    let after = world.saves(Ask::From(head, 3)).await;
    assert_eq!(world.problems().await, Vec::<String>::new(), "{after:#?}");
}

/// Replaces the content of the first snapshot by another drive's, before it is completed.
async fn exchange_the_snapshot(world: &World) {
    loop {
        let snapshots = world.truth.snapshots(&drive()).await.unwrap();
        if let Some(snapshot) = snapshots.first() {
            let other = xdrive::local::plane::PaperSuperblock::clean([9; 16]);
            return world.local().write(snapshot.id.as_str(), other).unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
