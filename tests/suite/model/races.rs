//! Races: old lists, and a client that sleeps through what another one does. Each check begins
//! right before the moments that count.

use xdrive::drive::plan::Step;

use super::broken::Broken;
use super::check::{Asleep, Budget, Old, P1, P3_OLDER, Setup};
use super::client::Run;
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;

#[test]
fn waiting_less_than_a_list_can_be_old_is_caught() {
    let setup = Setup {
        name: "short settle",
        past: Past::JustSaved,
        budget: Budget {
            stale: 4,
            ..CALM.budget
        },
        old: Old::Snapshots,
        checks_next_run: false,
        ..CALM
    };
    is_caught(Broken::ShortSettle, P3_OLDER, &setup);
}

#[test]
fn a_new_drive_after_one_empty_list_is_caught() {
    let setup = Setup {
        name: "one empty list",
        past: Past::JustMade,
        budget: Budget {
            stale: 3,
            ..CALM.budget
        },
        old: Old::Snapshots,
        checks_next_run: false,
        ..CALM
    };
    is_caught(Broken::EmptyAfterOneList, P3_OLDER, &setup);
}

#[test]
fn a_proof_that_never_dies_is_caught() {
    let setup = Setup {
        name: "lasting proof",
        past: Past::Crashed,
        asleep: Some(Asleep::Before(|step| matches!(step, Step::DeleteVolume(_)))),
        clients: &[&[Run::Stop], &[Run::Connect]],
        faults: &[Fault::Death],
        budget: Budget {
            faults: 1,
            ..CALM.budget
        },
        checks_next_run: false,
        depth: Some(51),
        ..CALM
    };
    is_caught(Broken::LastingProofs, P1, &setup);
}

/// The first client sleeps before a step, and wakes at any moment of the second one's session.
fn another_comes(before: fn(&Step) -> bool, depth: usize) {
    holds(&Setup {
        name: "another comes",
        past: Past::Saved,
        asleep: Some(Asleep::Before(before)),
        clients: &[&[Run::Connect], &[Run::Connect]],
        depth: Some(depth),
        ..CALM
    });
}

#[test]
fn another_client_may_come_while_one_sleeps_on_its_way_in() {
    another_comes(|step| matches!(step, Step::Launch { .. }), 40);
    another_comes(|step| matches!(step, Step::Claim(_)), 40);
    another_comes(|step| matches!(step, Step::Raise { .. }), 40);
    another_comes(|step| matches!(step, Step::Attach { .. }), 40);
    another_comes(|step| matches!(step, Step::Mount { .. }), 40);
}

#[test]
fn another_client_may_come_while_one_sleeps_on_its_way_out() {
    another_comes(|step| matches!(step, Step::Close { .. }), 60);
    another_comes(|step| matches!(step, Step::Snapshot { .. }), 60);
    another_comes(|step| matches!(step, Step::Terminate(_)), 60);
    another_comes(|step| matches!(step, Step::DeleteVolume(_)), 60);
}
