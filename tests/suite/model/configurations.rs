//! The checks, each within its own budget.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::actions::Action;
use super::broken::Broken;
use super::check::{Budget, Checked, Old, P1, P2, P3_OLDER, P4, Setup, State};
use super::client::{At, Run};
use super::events::Fault;
use super::past::Past;

const NOTHING: Budget = Budget {
    faults: 0,
    stale: 0,
    slow: 0,
};

/// A single client, undisturbed.
pub(super) const CALM: Setup = Setup {
    name: "calm",
    past: Past::New,
    asleep: &[],
    clients: &[&[Run::Connect]],
    faults: &[],
    budget: NOTHING,
    further: NOTHING,
    lag: 1,
    old: Old::Any,
    lease: None,
    zones: 1,
    checks_next_run: true,
    may_be_stuck: false,
    may_be_forked: false,
    depth: None,
    broken: None,
};

/// How many more actions a long check with a depth takes.
const FURTHER: usize = 30;

/// The findings: each broken promise, and the shortest path there.
type Found = Vec<(&'static str, Vec<(State, Option<Action>)>)>;

/// Checks everything, or until the promise `wanted` is broken.
fn check(setup: &Setup, wanted: Option<&'static str>) -> Found {
    let began = Instant::now();
    let until = match wanted {
        Some(name) => HasDiscoveries::AnyOf([name].into()),
        None => HasDiscoveries::AnyFailures,
    };
    let is_long = std::env::var_os("XDRIVE_LONG").is_some();
    let mut setup = setup.clone();
    if is_long {
        setup.budget.faults += setup.further.faults;
        setup.budget.stale += setup.further.stale;
        setup.budget.slow += setup.further.slow;
    }
    let checker = Checked::new(setup.clone()).checker();
    let checker = checker.finish_when(until);
    let further = if is_long { FURTHER } else { 0 };
    let checker = match setup.depth {
        Some(depth) => checker.target_max_depth(depth + further),
        None => checker,
    };
    let checker = checker.spawn_bfs().join();
    let found: Found = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| (name, path.into_vec()))
        .collect();
    println!(
        "| {} | {:?} | {} | {} | {} | {:.1} s |",
        setup.name,
        setup.past,
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    found
}

/// The true plan breaks nothing.
pub(super) fn holds(setup: &Setup) {
    let found = check(setup, None);
    let broken: Vec<String> = found
        .iter()
        .map(|(name, path)| describe(name, path))
        .collect();
    assert!(broken.is_empty(), "{}: {}", setup.name, broken.join("\n"));
}

/// Checks that a broken plan breaks the promise of that name, and the true one passes the same
/// check.
pub(super) fn is_caught(broken: Broken, name: &'static str, setup: &Setup) {
    is_found(broken, name, setup);
    holds(setup);
}

fn is_found(broken: Broken, name: &'static str, setup: &Setup) {
    let setup = Setup {
        broken: Some(broken),
        checks_next_run: name == P4,
        ..setup.clone()
    };
    let found = check(&setup, Some(name));
    let caught = found.iter().find(|(found, _)| *found == name);
    let (_, path) = caught.unwrap_or_else(|| panic!("{broken:?} does not break {name}"));
    println!("{broken:?}: {}", describe(name, path));
}

/// A path to a state, in words.
fn describe(name: &str, path: &[(State, Option<Action>)]) -> String {
    let mut lines = vec![format!("{name} is broken after")];
    for (state, action) in path {
        let step = |slot: u8| match &state.clients[usize::from(slot)].at {
            At::Acting { steps, .. } => steps.last().map(ToString::to_string),
            _ => None,
        };
        let Some(action) = action else { continue };
        let what = match action {
            Action::Call { slot, .. } => step(*slot),
            _ => None,
        };
        lines.push(format!("  {action:?} {}", what.unwrap_or_default()));
    }
    lines.join("\n")
}

#[test]
fn one_client_alone_keeps_every_promise() {
    for past in [
        Past::New,
        Past::Saved,
        Past::Alive,
        Past::Crashed,
        Past::Spares,
    ] {
        holds(&Setup { past, ..CALM });
    }
}

#[test]
fn a_copied_older_snapshot_is_not_taken_for_the_newest() {
    let setup = Setup {
        name: "copy",
        past: Past::Saved,
        faults: &[Fault::Copy],
        budget: Budget {
            faults: 1,
            ..CALM.budget
        },
        ..CALM
    };
    holds(&setup);
    is_caught(Broken::NewestByStartTime, P3_OLDER, &setup);
}

#[test]
fn deleting_before_the_snapshot_is_completed_is_caught() {
    let setup = Setup {
        name: "delete early",
        past: Past::Crashed,
        clients: &[&[Run::Stop]],
        ..CALM
    };
    is_caught(Broken::DeleteBeforeCompleted, P1, &setup);
}

#[test]
fn taking_silence_for_a_proof_is_caught() {
    let setup = Setup {
        name: "silence",
        past: Past::Alive,
        clients: &[&[Run::Stop]],
        faults: &[Fault::Cut],
        budget: Budget {
            faults: 1,
            ..CALM.budget
        },
        ..CALM
    };
    is_caught(Broken::SilenceIsProof, P2, &setup);
}

const PASTS: [Past; 4] = [Past::New, Past::Saved, Past::Alive, Past::Crashed];

/// Checks a session of one client while a single fault happens at any moment. A long check has
/// `further` more of it.
fn one_fault(
    name: &'static str,
    faults: &'static [Fault],
    further: u8,
    may_be_stuck: bool,
    pasts: &[Past],
) {
    for past in pasts.iter().copied() {
        holds(&Setup {
            name,
            past,
            faults,
            budget: Budget {
                faults: 1,
                ..CALM.budget
            },
            further: Budget {
                faults: further,
                ..NOTHING
            },
            may_be_stuck,
            ..CALM
        });
    }
}

#[test]
fn an_instance_may_die_be_taken_or_restart_at_any_moment() {
    one_fault(
        "death",
        &[Fault::Death, Fault::Notice, Fault::Reboot],
        0,
        false,
        &PASTS,
    );
}

#[test]
fn a_call_may_be_refused_lose_its_answer_or_arrive_twice() {
    one_fault(
        "calls",
        &[Fault::Lost, Fault::Refused, Fault::Twice],
        1,
        false,
        &PASTS,
    );
}

#[test]
fn a_client_may_be_killed_suspended_or_cut_off_at_any_moment() {
    let faults = &[
        Fault::Crash,
        Fault::Suspend,
        Fault::Cut,
        Fault::Disconnect,
        Fault::SlowCloud,
        Fault::Freeze,
    ];
    one_fault("client", faults, 0, false, &PASTS);
}

#[test]
fn somebody_at_the_console_may_stop_or_delete_anything() {
    one_fault("console", &[Fault::Console], 0, true, &PASTS);
    one_fault("console", &[Fault::Console], 0, true, &[Past::Spares]);
}

#[test]
fn a_snapshot_may_fail() {
    one_fault("snapshot", &[Fault::SnapshotError], 1, false, &PASTS);
}

/// Checks the same sessions with two faults: `may_be_stuck` as in [`one_fault`].
fn two_faults(name: &'static str, faults: &'static [Fault], may_be_stuck: bool, pasts: &[Past]) {
    for past in pasts.iter().copied() {
        holds(&Setup {
            name,
            past,
            faults,
            budget: Budget {
                faults: 2,
                ..NOTHING
            },
            may_be_stuck,
            ..CALM
        });
    }
}

#[test]
fn one_instance_after_the_other_may_die_or_be_taken() {
    two_faults("deaths", &[Fault::Death, Fault::Notice], false, &PASTS);
}

/// A host that restarts in the middle of its own close reports afterwards that it closes and that
/// nothing is mounted, but not that it unmounted a volume: the volume is saved as crashed.
#[test]
fn a_host_that_restarts_while_it_closes_is_saved_all_the_same() {
    two_faults(
        "restart",
        &[Fault::Notice, Fault::Reboot],
        false,
        &[Past::New, Past::Alive],
    );
}
