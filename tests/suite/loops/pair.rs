//! Two clients of one drive at the same time: one lineage, one live host, and an error for the
//! other.

use std::time::Duration;

use xdrive::drive::Outcome;
use xdrive::drive::stuck::Head;

use harness::simulation::life::Past;
use harness::simulation::{Ask, FRESH, RunReport, STALE, Staleness, Trouble, World, drive};

/// Two sessions, the second so many milliseconds after the first.
async fn race(past: &World, later: u64) -> [RunReport; 2] {
    let world = past.copy();
    let second = async {
        tokio::time::sleep(Duration::from_millis(later)).await;
        world.run(Ask::Session(3), Trouble::default()).await
    };
    let (first, second) = tokio::join!(world.run(Ask::Session(2), Trouble::default()), second);
    // The loser connects again, and finds the winner's notes.
    let after = world.run(Ask::Session(4), Trouble::default()).await;
    let problems = world.problems().await;
    assert!(
        after.is_saved() && problems.is_empty(),
        "{later} ms: {problems:#?}\n{first:#?}\n{second:#?}\n{after:#?}"
    );
    [first, second]
}

async fn races(stale: Staleness, offsets: &[u64]) -> usize {
    let mut cases = 0;
    for past in Past::ALL {
        let world = World::with_past(past, stale).await;
        for later in offsets {
            let reports = race(&world, *later).await;
            let winners = reports.iter().filter(|report| report.is_saved()).count();
            let losers = reports
                .iter()
                .filter(|report| matches!(report.outcome, Some(Outcome::Busy(_))))
                .count();
            // Both may have had it, one after the other; neither fails for any other reason.
            assert!(
                winners >= 1 && winners + losers == 2,
                "{past:?}, {later} ms: {reports:#?}"
            );
            cases += 1;
        }
    }
    cases
}

#[tokio::test(start_paused = true)]
async fn two_sessions_at_once_never_fork_the_drive() {
    let cases = races(FRESH, &[0, 1, 15, 45, 70, 120, 200, 300]).await;
    assert_eq!(cases, 32);
}

#[tokio::test(start_paused = true)]
async fn two_sessions_at_once_never_fork_the_drive_while_lists_are_stale() {
    let cases = races(STALE, &[0, 10, 400, 900, 1050, 1500, 2500]).await;
    assert_eq!(cases, 28);
}

#[tokio::test(start_paused = true)]
async fn a_stop_from_elsewhere_meets_a_session_at_any_moment() {
    let mut cases = 0;
    for past in Past::ALL {
        let past = World::with_past(past, FRESH).await;
        for later in [0, 20, 60, 100, 150, 220, 300] {
            let world = past.copy();
            let stop = async {
                tokio::time::sleep(Duration::from_millis(later)).await;
                world.run(Ask::Stop, Trouble::default()).await
            };
            let (session, stop) =
                tokio::join!(world.run(Ask::Session(2), Trouble::default()), stop);
            let after = world.run(Ask::Stop, Trouble::default()).await;
            let problems = world.problems().await;
            assert!(
                after.is_saved() && problems.is_empty(),
                "{later} ms: {problems:#?}\n{session:#?}\n{stop:#?}\n{after:#?}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 28);
}

#[tokio::test(start_paused = true)]
async fn going_back_to_an_older_snapshot_keeps_the_newer_one_as_a_fork() {
    let world = World::with_past(Past::Saved, FRESH).await;
    world.saves(Ask::Session(2)).await;
    let older = world
        .truth
        .snapshots(&drive())
        .await
        .unwrap()
        .into_iter()
        .find(|snapshot| snapshot.tags["xdrive:generation"] == "1")
        .unwrap();
    // `--from` leaves note 2 behind on purpose.
    world.hidden().acknowledged.remove(&2);
    let report = world.saves(Ask::From(Head::Snapshot(older.id), 3)).await;
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
    let forks = world
        .truth
        .snapshots(&"demo.fork-1".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(forks.len(), 1);
    assert!(
        world.hidden().contents[forks[0].id.as_str()]
            .notes
            .contains(&2)
    );
}
