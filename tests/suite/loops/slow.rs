//! Slow calls, each of them: a satellite link, an EC2 that throttles. A session takes longer, and
//! ends all the same.

use std::time::Duration;

use xdrive::drive::Event;

use harness::simulation::life::Past;
use harness::simulation::{Ask, FRESH, RunReport, STALE, Staleness, Trouble, World, drive};

/// From every past one session with every answer that slow; then a stop.
async fn ends(slow: Duration, stale: Staleness) {
    let trouble = Trouble {
        slow,
        ..Trouble::default()
    };
    for past in Past::ALL {
        for ask in [Ask::Session(2), Ask::Stop] {
            let world = World::with_past(past, stale).await;
            let report = world.run(ask.clone(), trouble.clone()).await;
            assert!(
                report.is_saved(),
                "{slow:?}, {past:?}, {ask:?}: {report:#?}"
            );
            assert!(in_vain(&report).is_empty(), "{:#?}", in_vain(&report));
            let problems = world.problems().await;
            assert!(problems.is_empty(), "{problems:#?}, {report:#?}");
        }
    }
}

/// Why steps failed.
fn in_vain(report: &RunReport) -> Vec<String> {
    let failed = |event: &Event| match event {
        Event::Failed { error, .. } => Some(error.clone()),
        _ => None,
    };
    report.events.iter().filter_map(failed).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_where_every_call_takes_a_second_and_a_half() {
    ends(Duration::from_millis(1500), FRESH).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_where_every_call_takes_three_seconds() {
    ends(Duration::from_secs(3), FRESH).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_where_calls_are_slow_and_lists_are_old() {
    ends(Duration::from_secs(3), STALE).await;
}

#[tokio::test(start_paused = true)]
async fn superseded_checkpoints_go_where_calls_are_slow() {
    let world = World::with_past(Past::Saved, FRESH).await;
    let ask = Ask::Checkpoints {
        note: 2,
        times: 4,
        killed: false,
    };
    let trouble = Trouble {
        slow: Duration::from_secs(3),
        ..Trouble::default()
    };
    let report = world.run(ask, trouble).await;
    assert!(report.is_saved(), "{report:#?}");
    let snapshots = world.truth.snapshots(&drive()).await.unwrap();
    let left = snapshots
        .iter()
        .filter(|snapshot| snapshot.tags["xdrive:kind"] == "checkpoint");
    assert_eq!(left.count(), 0, "{report:#?}");
}
