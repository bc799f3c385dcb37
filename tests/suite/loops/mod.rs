//! The four loops: every call failing, every call twice, killed around every call, every ending in
//! every phase. After each: the promises hold, nothing is left, and no acknowledged note is lost.

mod allowed;
mod checkpoints;
mod delays;
mod discarded;
mod pair;
mod record;
mod recovery;
mod slow;
mod waits;

use xdrive::drive::plan::Step;
use xdrive::drive::{Event, Outcome};

use harness::simulation::wire::{Calls, Fault};
use harness::simulation::{Ask, FRESH, RunReport, STALE, Staleness, Trouble, World, drive};

/// The drive's past when a run begins.
#[derive(Debug, Clone, Copy)]
enum Past {
    /// There is no drive.
    New,
    /// The drive was saved.
    Saved,
    /// The drive's xdrive was killed in the shell; the instance runs on.
    Alive,
    /// The drive's instance vanished: a volume survived.
    Crashed,
}

const PASTS: [Past; 4] = [Past::New, Past::Saved, Past::Alive, Past::Crashed];

async fn world(past: Past, stale: Staleness) -> World {
    let world = World::new(stale);
    match past {
        Past::New => {}
        Past::Saved => {
            let report = world.run(Ask::Session(1), Trouble::default()).await;
            assert!(is_saved(&report), "{report:#?}");
        }
        Past::Alive => {
            let report = world.run(Ask::KilledInShell(1), Trouble::default()).await;
            assert!(report.outcome.is_none(), "{report:#?}");
        }
        Past::Crashed => {
            let report = world.run(Ask::KilledInShell(1), Trouble::default()).await;
            assert!(report.outcome.is_none(), "{report:#?}");
            world.cut_power().await;
        }
    }
    world
}

fn is_saved(report: &RunReport) -> bool {
    matches!(report.outcome, Some(Outcome::Saved { .. }))
}

/// Runs a session in trouble, then a next run, and checks everything after them.
async fn survives(past: &World, trouble: &Trouble, next: Ask) -> RunReport {
    let world = past.copy();
    let report = world.run(Ask::Session(2), trouble.clone()).await;
    goes_on(&world, &report, trouble, next).await;
    report
}

/// Runs `next` after a session in trouble, which reported that, and checks everything.
async fn goes_on(world: &World, report: &RunReport, trouble: &Trouble, next: Ask) -> RunReport {
    let unreported = world.unreported(report).await;
    let after = world.run(next.clone(), Trouble::default()).await;
    let mut problems = world.problems().await;
    problems.extend(unreported);
    assert!(
        is_saved(&after) && problems.is_empty(),
        "{trouble:?}, then {next:?}: {problems:#?}\nfirst: {report:#?}\nthen: {after:#?}"
    );
    after
}

/// An undisturbed session.
async fn undisturbed(past: &World) -> RunReport {
    let world = past.copy();
    let report = world.run(Ask::Session(2), Trouble::default()).await;
    assert!(is_saved(&report), "{report:#?}");
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
    report
}

/// Injects `fault` into every single call of that sort in a session, from every past; returns how
/// many cases that were.
async fn at_every(calls: Calls, fault: Fault, stale: Staleness, nexts: &[Ask]) -> usize {
    let mut cases = 0;
    for past in PASTS {
        let world = world(past, stale).await;
        let report = undisturbed(&world).await;
        let count = match calls {
            Calls::Changes => report.changes,
            Calls::Looks => report.looks,
        };
        for call in 1..=count {
            let trouble = Trouble {
                fault: Some((calls, call, fault)),
                ..Trouble::default()
            };
            for next in nexts {
                survives(&world, &trouble, next.clone()).await;
                cases += 1;
            }
        }
    }
    cases
}

#[tokio::test(start_paused = true)]
async fn a_session_without_trouble_leaves_snapshots_and_nothing_else() {
    for stale in [FRESH, STALE] {
        for past in PASTS {
            let report = undisturbed(&world(past, stale).await).await;
            assert!(report.changes >= 4, "{past:?}: {report:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_change_may_fail_before_it_arrives() {
    let cases = at_every(Calls::Changes, Fault::Unsent, FRESH, &[Ask::Session(3)]).await;
    assert!(cases >= 26, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn every_change_may_lose_its_answer() {
    let cases = at_every(Calls::Changes, Fault::Unanswered, FRESH, &[Ask::Session(3)]).await;
    assert!(cases >= 26, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn every_change_may_lose_its_answer_while_lists_are_stale() {
    let cases = at_every(Calls::Changes, Fault::Unanswered, STALE, &[Ask::Session(3)]).await;
    assert!(cases >= 26, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn every_change_may_be_refused_for_good() {
    let denied = Fault::Refused(403, "UnauthorizedOperation");
    let cases = at_every(Calls::Changes, denied, FRESH, &[Ask::Session(3)]).await;
    assert!(cases >= 26, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn every_change_may_arrive_twice() {
    let cases = at_every(Calls::Changes, Fault::Twice, FRESH, &[Ask::Stop]).await;
    assert!(cases >= 26, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn a_kill_before_any_change_is_made_good_by_the_next_connect_or_stop() {
    let nexts = [Ask::Session(3), Ask::Stop];
    let cases = at_every(Calls::Changes, Fault::KilledBefore, FRESH, &nexts).await;
    assert!(cases >= 52, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn a_kill_after_any_change_is_made_good_by_the_next_connect_or_stop() {
    let nexts = [Ask::Session(3), Ask::Stop];
    let cases = at_every(Calls::Changes, Fault::KilledAfter, FRESH, &nexts).await;
    assert!(cases >= 52, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn a_kill_after_any_change_is_made_good_while_lists_are_stale() {
    let nexts = [Ask::Session(3), Ask::Stop];
    let cases = at_every(Calls::Changes, Fault::KilledAfter, STALE, &nexts).await;
    assert!(cases >= 52, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn every_look_may_fail() {
    let cases = at_every(
        Calls::Looks,
        Fault::Refused(500, "InternalError"),
        FRESH,
        &[Ask::Stop],
    )
    .await;
    assert!(cases >= 100, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_refused_for_good_leaves_nothing_unreported() {
    let denied = Fault::Refused(403, "UnauthorizedOperation");
    let cases = at_every(Calls::Looks, denied, FRESH, &[Ask::Stop]).await;
    assert!(cases >= 100, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_at_any_moment_ends_a_session_as_it_should() {
    let mut cases = 0;
    for past in PASTS {
        let world = world(past, FRESH).await;
        let moments = undisturbed(&world).await.events.len();
        for moment in 1..=moments {
            for interrupts in [vec![moment], vec![moment, moment + 1]] {
                let trouble = Trouble {
                    interrupts,
                    ..Trouble::default()
                };
                survives(&world, &trouble, Ask::Session(3)).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 100, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_answered_while_a_step_goes_on() {
    let world = world(Past::Saved, FRESH).await;
    let mounts = |event: &Event| matches!(event, Event::Started(Step::Mount { .. }));
    let events = undisturbed(&world).await.events;
    let moment = 1 + events.iter().position(mounts).unwrap();
    let trouble = Trouble {
        interrupts: vec![moment],
        ..Trouble::default()
    };
    let report = world.copy().run(Ask::Session(2), trouble).await;
    let at = |event: &dyn Fn(&Event) -> bool| report.events.iter().position(event);
    let answered = at(&|event| matches!(event, Event::Ending));
    let mounted = at(&|event| {
        let Event::Finished { step, .. } = event else {
            return false;
        };
        matches!(step, Step::Mount { .. })
    });
    assert!(answered.is_some() && answered < mounted, "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_attached_and_never_mounted_is_saved_as_clean_as_it_was() {
    let world = world(Past::Saved, FRESH).await;
    let attached = |event: &Event| matches!(event, Event::Finished { step, .. } if matches!(step, Step::Attach { .. }));
    let events = undisturbed(&world).await.events;
    let trouble = Trouble {
        interrupts: vec![1 + events.iter().position(attached).unwrap()],
        ..Trouble::default()
    };
    let world = world.copy();
    let report = world.run(Ask::Session(2), trouble).await;
    assert!(is_saved(&report), "{report:#?}");
    let mounts =
        |event: &Event| matches!(event, Event::Started(step) if matches!(step, Step::Mount { .. }));
    assert!(!report.events.iter().any(mounts), "{report:#?}");
    let mut kinds = Vec::new();
    for snapshot in world.truth.snapshots(&drive()).await.unwrap() {
        kinds.push(snapshot.tags["xdrive:kind"].clone());
    }
    assert_eq!(kinds, ["clean", "clean"], "{report:#?}");
    assert_eq!(world.problems().await, Vec::<String>::new(), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_mounted_before_its_generation_can_be_read() {
    let report = undisturbed(&world(Past::Saved, STALE).await).await;
    let took = report.events.iter().find_map(|event| match event {
        Event::Finished { step, took, .. } => {
            matches!(step, Step::Mount { .. }).then_some(took.as_millis())
        }
        _ => None,
    });
    // Raising and attaching take no time, and the device appears soon.
    assert!(took >= Some(STALE.reads.into()), "{took:?}");
}
