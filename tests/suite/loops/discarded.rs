//! The loops of a session that saves nothing: whatever happens to it, the drive's snapshots are those
//! that were there before, and a next run leaves nothing else.

use xdrive::drive::plan::Step;
use xdrive::drive::{Event, Outcome};

use super::goes_on;
use harness::simulation::life::{Life, Past};
use harness::simulation::wire::{Calls, Fault};
use harness::simulation::{Ask, FRESH, STALE, Staleness, Trouble, World, drive};

async fn snapshots(world: &World) -> Vec<String> {
    let listed = world.truth.snapshots(&drive()).await.unwrap();
    let mut ids: Vec<String> = listed.iter().map(|it| it.id.to_string()).collect();
    ids.sort();
    ids
}

/// A session of a saved drive that saves nothing, after which nothing but the drive's snapshots is left.
async fn life(stale: Staleness) -> Life {
    let world = World::with_past(Past::Saved, stale).await;
    let life = Life::new(world, Ask::Discard(2)).await;
    let report = &life.undisturbed;
    let outcome = report.outcome.as_ref();
    assert!(
        matches!(outcome, Some(Outcome::Unwound { .. })),
        "{report:#?}"
    );
    survives(&life, &Trouble::default(), Ask::Stop).await;
    life
}

/// Repeats it in trouble, and then a next run.
async fn survives(life: &Life, trouble: &Trouble, next: Ask) {
    let before = snapshots(&life.past).await;
    let (world, report) = life.again(trouble).await;
    assert_eq!(snapshots(&world).await, before, "{trouble:?}: {report:#?}");
    let after = goes_on(&world, &report, trouble, next.clone()).await;
    if let Ask::Stop = next {
        assert_eq!(snapshots(&world).await, before, "{after:#?}");
    }
}

async fn at_every(calls: Calls, fault: Fault, stale: Staleness) -> usize {
    let life = life(stale).await;
    for trouble in life.each_failing(calls, fault) {
        for next in [Ask::Session(3), Ask::Stop] {
            survives(&life, &trouble, next).await;
        }
    }
    life.undisturbed.count(calls)
}

#[tokio::test(start_paused = true)]
async fn a_session_that_saves_nothing_leaves_the_snapshots_that_were_there() {
    for stale in [FRESH, STALE] {
        let report = life(stale).await.undisturbed;
        let never = |event: &Event| {
            let Event::Started(step) = event else {
                return false;
            };
            matches!(
                step,
                Step::Raise { .. } | Step::Snapshot { .. } | Step::Close { .. }
            )
        };
        assert!(!report.events.iter().any(never), "{report:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drive_that_is_not_wholly_saved_is_left_alone() {
    for past in [Past::New, Past::Alive, Past::Crashed] {
        let world = World::with_past(past, FRESH).await;
        let report = world.run(Ask::Discard(2), Trouble::default()).await;
        let outcome = report.outcome.as_ref();
        assert!(
            matches!(outcome, Some(Outcome::Stuck(_))),
            "{past:?}: {report:#?}"
        );
        assert_eq!(report.changes, 0, "{past:?}: {report:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_change_of_one_may_fail_be_lost_or_come_twice() {
    for (fault, stale) in [
        (Fault::Unsent, FRESH),
        (Fault::Unanswered, FRESH),
        (Fault::Unanswered, STALE),
        (Fault::Refused(403, "UnauthorizedOperation"), FRESH),
        (Fault::Twice, FRESH),
    ] {
        let count = at_every(Calls::Changes, fault, stale).await;
        assert!(count >= 5, "{fault:?}: {count} changes");
    }
}

#[tokio::test(start_paused = true)]
async fn one_may_be_killed_around_every_change() {
    for (fault, stale) in [
        (Fault::KilledBefore, FRESH),
        (Fault::KilledAfter, FRESH),
        (Fault::KilledAfter, STALE),
    ] {
        let count = at_every(Calls::Changes, fault, stale).await;
        assert!(count >= 5, "{fault:?}: {count} changes");
    }
}

#[tokio::test(start_paused = true)]
async fn every_look_of_one_may_fail() {
    let count = at_every(Calls::Looks, Fault::Refused(500, "InternalError"), FRESH).await;
    assert!(count >= 20, "{count} looks");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_at_any_moment_of_one_leaves_nothing() {
    let life = life(FRESH).await;
    for moment in 1..=life.undisturbed.events.len() {
        let trouble = Trouble {
            interrupts: vec![moment],
            ..Trouble::default()
        };
        survives(&life, &trouble, Ask::Session(3)).await;
    }
}
