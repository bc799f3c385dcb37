//! Races: stale lists, and a client that sleeps while another one acts. Each check begins right
//! before the race.

use xdrive::drive::plan::Step;

use super::broken::Broken;
use super::check::{Asleep, Budget, Old, P1, P2, P3_FORK, P3_OLDER, Setup};
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
        asleep: &[(
            0,
            Asleep::Before(|step| matches!(step, Step::DeleteVolume(_))),
        )],
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

/// A client slept since its look, while another one went on, and now does the re-read of its step,
/// which may be stale.
const OLD_LOOK: Setup = Setup {
    name: "old look",
    clients: &[&[Run::Stop], &[Run::Connect]],
    budget: Budget {
        stale: 1,
        ..CALM.budget
    },
    checks_next_run: false,
    depth: Some(32),
    ..CALM
};

#[test]
fn a_second_read_counts_however_old_the_first_look_is() {
    for past in [Past::Crashed, Past::Spares] {
        holds(&Setup {
            past,
            asleep: &[
                (
                    0,
                    Asleep::Again(|step| matches!(step, Step::DeleteVolume(_))),
                ),
                (0, Asleep::Dropped),
                (1, Asleep::Before(|step| matches!(step, Step::Raise { .. }))),
            ],
            ..OLD_LOOK
        });
    }
}

#[test]
fn trusting_an_old_answer_of_a_host_is_caught() {
    let setup = Setup {
        name: "old word",
        past: Past::Idle,
        asleep: &[
            (0, Asleep::Again(|step| matches!(step, Step::Terminate(_)))),
            (0, Asleep::Dropped),
            (
                1,
                Asleep::Before(|step| matches!(step, Step::Attach { .. })),
            ),
        ],
        ..OLD_LOOK
    };
    is_caught(Broken::OldWord, P2, &setup);
}

/// The first client sleeps before a step, and wakes at any moment of the second one's session.
fn another_comes(asleep: &'static [(u8, Asleep)], depth: usize) {
    holds(&Setup {
        name: "another comes",
        past: Past::Saved,
        asleep,
        clients: &[&[Run::Connect], &[Run::Connect]],
        depth: Some(depth),
        ..CALM
    });
}

#[test]
fn another_client_may_come_while_one_sleeps_on_its_way_in() {
    another_comes(
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::Launch { .. })),
        )],
        40,
    );
    another_comes(
        &[(0, Asleep::Before(|step| matches!(step, Step::Claim(_))))],
        40,
    );
    another_comes(
        &[(0, Asleep::Before(|step| matches!(step, Step::Raise { .. })))],
        40,
    );
    another_comes(
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::Attach { .. })),
        )],
        40,
    );
    another_comes(
        &[(0, Asleep::Before(|step| matches!(step, Step::Mount { .. })))],
        40,
    );
}

#[test]
fn another_client_may_come_while_one_sleeps_on_its_way_out() {
    another_comes(
        &[(0, Asleep::Before(|step| matches!(step, Step::Close { .. })))],
        60,
    );
    another_comes(
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::Snapshot { .. })),
        )],
        60,
    );
    another_comes(
        &[(0, Asleep::Before(|step| matches!(step, Step::Terminate(_))))],
        60,
    );
    another_comes(
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::DeleteVolume(_))),
        )],
        60,
    );
}

/// Two connects raced. The second client, with a host and a volume of the state before, both made
/// long ago, was about to end them, and slept. The first one is about to delete its volume now.
const RACED: Setup = Setup {
    name: "raced",
    past: Past::Raced,
    asleep: &[
        (1, Asleep::Before(|step| matches!(step, Step::Terminate(_)))),
        (1, Asleep::On(4)),
        (
            0,
            Asleep::Before(|step| matches!(step, Step::DeleteVolume(_))),
        ),
    ],
    clients: &[&[Run::Connect], &[Run::Connect]],
    depth: Some(60),
    ..CALM
};

#[test]
fn deleting_a_volume_before_everybody_sees_its_snapshot_is_caught() {
    let setup = Setup {
        name: "not everywhere",
        budget: Budget {
            stale: 1,
            ..CALM.budget
        },
        old: Old::Snapshots,
        lag: 2,
        ..RACED
    };
    is_caught(Broken::NotEverywhere, P3_FORK, &setup);
}

#[test]
fn reading_snapshots_before_volumes_is_caught() {
    let setup = Setup {
        name: "parallel sweep",
        asleep: &[
            (1, Asleep::Before(|step| matches!(step, Step::Terminate(_)))),
            (1, Asleep::On(4)),
            (1, Asleep::Reading),
            (
                0,
                Asleep::Before(|step| matches!(step, Step::DeleteVolume(_))),
            ),
        ],
        ..RACED
    };
    is_caught(Broken::ParallelSweep, P3_FORK, &setup);
}

#[test]
fn two_first_connects_at_once_come_to_one_drive() {
    holds(&Setup {
        name: "first connects",
        past: Past::New,
        clients: &[&[Run::Connect], &[Run::Connect]],
        zones: 2,
        depth: None,
        ..CALM
    });
}

#[test]
fn lists_may_be_old_in_any_mix() {
    for past in [Past::New, Past::Saved, Past::Alive, Past::Crashed] {
        holds(&Setup {
            name: "old lists",
            past,
            further: Budget {
                stale: 1,
                ..CALM.budget
            },
            budget: Budget {
                stale: 2,
                ..CALM.budget
            },
            ..CALM
        });
    }
}

#[test]
fn lists_may_be_old_for_two_clients_at_once() {
    holds(&Setup {
        name: "old lists, first connects",
        past: Past::New,
        clients: &[&[Run::Connect], &[Run::Connect]],
        budget: Budget {
            stale: 1,
            ..CALM.budget
        },
        depth: Some(40),
        ..CALM
    });
    for (name, asleep) in [
        (
            "old lists, raise",
            &[(
                0,
                Asleep::Before(|step: &Step| matches!(step, Step::Raise { .. })),
            )][..],
        ),
        (
            "old lists, snapshot",
            &[(
                0,
                Asleep::Before(|step: &Step| matches!(step, Step::Snapshot { .. })),
            )],
        ),
    ] {
        holds(&Setup {
            name,
            past: Past::Saved,
            asleep,
            clients: &[&[Run::Connect], &[Run::Connect]],
            budget: Budget {
                stale: 1,
                ..CALM.budget
            },
            depth: Some(44),
            ..CALM
        });
    }
}
