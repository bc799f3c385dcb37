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

use xdrive::drive::Event;
use xdrive::drive::plan::Step;

use harness::simulation::life::{Life, Past};
use harness::simulation::wire::{Calls, Fault};
use harness::simulation::{Ask, FRESH, RunReport, STALE, Staleness, Trouble, World, drive};

/// A session from this past, to be repeated.
async fn life(past: Past, stale: Staleness) -> Life {
    let life = Life::new(World::with_past(past, stale).await, Ask::Session(2)).await;
    assert!(life.undisturbed.is_saved(), "{:#?}", life.undisturbed);
    life
}

/// Repeats a life in trouble, then a next run, and checks everything after them.
async fn survives(life: &Life, trouble: &Trouble, next: Ask) {
    let (world, report) = life.again(trouble).await;
    goes_on(&world, &report, trouble, next).await;
}

/// Runs `next` after a session in trouble, which reported that, and checks everything.
async fn goes_on(world: &World, report: &RunReport, trouble: &Trouble, next: Ask) -> RunReport {
    let (after, problems) = world.made_good(report, next.clone()).await;
    assert!(
        problems.is_empty(),
        "{trouble:?}, then {next:?}: {problems:#?}\nfirst: {report:#?}\nthen: {after:#?}"
    );
    after
}

/// Injects `fault` into every single call of that sort in a session, from every past; returns how
/// many cases that were.
async fn at_every(calls: Calls, fault: Fault, stale: Staleness, nexts: &[Ask]) -> usize {
    let mut cases = 0;
    for past in Past::ALL {
        let life = life(past, stale).await;
        for trouble in life.each_failing(calls, fault) {
            for next in nexts {
                survives(&life, &trouble, next.clone()).await;
                cases += 1;
            }
        }
    }
    cases
}

#[tokio::test(start_paused = true)]
async fn a_session_without_trouble_leaves_snapshots_and_nothing_else() {
    for stale in [FRESH, STALE] {
        for past in Past::ALL {
            let report = life(past, stale).await.undisturbed;
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
    for past in Past::ALL {
        let life = life(past, FRESH).await;
        for moment in 1..=life.undisturbed.events.len() {
            for interrupts in [vec![moment], vec![moment, moment + 1]] {
                let trouble = Trouble {
                    interrupts,
                    ..Trouble::default()
                };
                survives(&life, &trouble, Ask::Session(3)).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 100, "{cases} cases");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_answered_while_a_step_goes_on() {
    let life = life(Past::Saved, FRESH).await;
    let mounts = |event: &Event| matches!(event, Event::Started(Step::Mount { .. }));
    let events = &life.undisturbed.events;
    let moment = 1 + events.iter().position(mounts).unwrap();
    let trouble = Trouble {
        interrupts: vec![moment],
        ..Trouble::default()
    };
    let (_, report) = life.again(&trouble).await;
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
async fn a_volume_that_was_never_mounted_is_saved_as_clean_as_it_was() {
    let life = life(Past::Saved, FRESH).await;
    let attached = |event: &Event| matches!(event, Event::Finished { step, .. } if matches!(step, Step::Attach { .. }));
    let events = &life.undisturbed.events;
    let trouble = Trouble {
        interrupts: vec![1 + events.iter().position(attached).unwrap()],
        ..Trouble::default()
    };
    let (world, report) = life.again(&trouble).await;
    assert!(report.is_saved(), "{report:#?}");
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
    let report = life(Past::Saved, STALE).await.undisturbed;
    let took = report.events.iter().find_map(|event| match event {
        Event::Finished { step, took, .. } => {
            matches!(step, Step::Mount { .. }).then_some(took.as_millis())
        }
        _ => None,
    });
    // Raising and attaching take no time, and the device appears soon.
    assert!(took >= Some(STALE.reads.into()), "{took:?}");
}
