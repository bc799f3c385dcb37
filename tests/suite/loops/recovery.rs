//! Changes in the cloud in the middle of a session.

use std::time::Duration;

use xdrive::drive::plan::Waiting;
use xdrive::drive::reconcile::RunError;
use xdrive::drive::stuck::Why;
use xdrive::drive::{Event, Outcome};
use xdrive::ec2::SnapshotState;
use xdrive::local::Fault;

use harness::simulation::life::Past;
use harness::simulation::wire::{Calls, Fault as Trial};
use harness::simulation::{Ask, FRESH, RunReport, Trouble, World, drive};

/// Lets every pending snapshot fail, until so many have.
async fn break_snapshots(world: &World, count: usize) {
    let mut broken = std::collections::BTreeSet::new();
    while broken.len() < count {
        for snapshot in world.truth.snapshots(&drive()).await.unwrap() {
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
    let world = World::with_past(Past::New, FRESH).await;
    let (report, ()) = tokio::join!(
        world.run(Ask::Session(2), Trouble::default()),
        break_snapshots(&world, 2)
    );
    assert!(report.is_saved(), "{report:#?}");
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_always_fails_leaves_the_volume_and_says_so() {
    let world = World::with_past(Past::New, FRESH).await;
    let (report, ()) = tokio::join!(
        world.run(Ask::Session(2), Trouble::default()),
        break_snapshots(&world, 3)
    );
    let Some(Outcome::Stuck(stuck)) = &report.outcome else {
        panic!("{report:#?}")
    };
    let volumes = world.truth.volumes(&drive()).await.unwrap();
    assert_eq!(volumes.len(), 1, "{volumes:#?}");
    let command = format!("xdrive connect demo --from {}", volumes[0].id);
    assert_eq!(stuck.commands(&drive()), [command]);
    // The next run has three tries of its own.
    let report = world.saves(Ask::Session(3)).await;
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
}

/// How many instances a session of a saved drive launches if they boot so; and its world and run.
async fn launched(boots: &str) -> (usize, World, RunReport) {
    let mut world = World::with_past(Past::Saved, FRESH).await;
    world.hurry();
    let before = world.truth.instances(&drive()).await.unwrap().len();
    world.set(&format!("[boots]\n\"t3.medium\" = {{ {boots} }}\n"));
    let report = world.run(Ask::Session(2), Trouble::default()).await;
    let now = world.truth.instances(&drive()).await.unwrap().len();
    (now - before, world, report)
}

/// Checks that the session waited so many seconds for each host.
fn hosts_were_waited_for(report: &RunReport, seconds: std::ops::Range<u64>) {
    for event in &report.events {
        if let Event::Waited { what, took, .. } = event
            && matches!(what, Waiting::Host(_))
        {
            let took = took.as_secs();
            assert!(seconds.contains(&took), "{took} s: {:#?}", report.events);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_boot_is_waited_for() {
    let (launched, world, report) = launched("seconds = 5").await;
    assert!(report.is_saved(), "{report:#?}");
    assert_eq!(launched, 1, "{:#?}", report.events);
    let initializing = report.events.iter().filter_map(|event| match event {
        Event::Checks { checks, .. } => Some(checks.are_initializing()),
        _ => None,
    });
    assert_eq!(initializing.collect::<Vec<_>>(), [true], "{report:#?}");
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_status_checks_fail_is_not_waited_for_longer() {
    let (launched, world, report) = launched("seconds = 1, fails = true").await;
    assert!(
        matches!(report.outcome, Some(Outcome::Stuck(_))),
        "{report:#?}"
    );
    assert_eq!(launched, 3, "{:#?}", report.events);
    hosts_were_waited_for(&report, 2..5);
    world.set("");
    let after = world.saves(Ask::Session(3)).await;
    assert_eq!(world.problems().await, Vec::<String>::new(), "{after:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_boots_for_ever_is_given_up_in_the_end() {
    let (launched, world, report) = launched("seconds = 3600").await;
    assert!(
        matches!(report.outcome, Some(Outcome::Stuck(_))),
        "{report:#?}"
    );
    assert_eq!(launched, 3, "{:#?}", report.events);
    hosts_were_waited_for(&report, 8..11);
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn no_capacity_anywhere_leaves_everything_as_it_was() {
    for past in [Past::New, Past::Saved, Past::Crashed] {
        let world = World::with_past(past, FRESH).await;
        world
            .local()
            .plant(Fault::no_capacity("t3.medium", 1))
            .unwrap();
        let report = world.run(Ask::Session(2), Trouble::default()).await;
        let Some(Outcome::Failed(failure)) = &report.outcome else {
            panic!("{report:#?}")
        };
        assert!(
            matches!(failure.error, RunError::NoCapacity { .. }),
            "{report:#?}"
        );
        assert!(
            matches!(failure.also.as_deref(), Some(Outcome::Unwound { .. })),
            "{report:#?}"
        );
        let after = world.saves(Ask::Session(3)).await;
        assert_eq!(world.problems().await, Vec::<String>::new(), "{after:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_launch_lost_its_answer_is_replaced_after_its_end() {
    let mut world = World::with_past(Past::Saved, FRESH).await;
    world.hurry();
    world.set("[boots]\n\"t3.medium\" = { seconds = 1, fails = true }\n");
    let trouble = Trouble {
        fault: Some((Calls::Changes, 1, Trial::Unanswered)),
        ..Trouble::default()
    };
    let report = world.run(Ask::Session(2), trouble).await;
    // Its client token belongs to an instance that is over.
    let terminated = |event: &Event| matches!(event, Event::Failed { error, .. } if error.contains("Idempotent"));
    assert!(!report.events.iter().any(terminated), "{report:#?}");
    assert!(
        matches!(&report.outcome, Some(Outcome::Stuck(stuck)) if matches!(stuck.why, Why::NoHost(3))),
        "{report:#?}"
    );
}
