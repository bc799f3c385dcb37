//! Leases that run out: of a client that sleeps, is cut off or was killed, on a host that hangs or
//! restarted, while another client comes.

use xdrive::drive::plan::Step;

use super::broken::Broken;
use super::check::{Asleep, Budget, P2, Setup};
use super::client::Run;
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;

/// Hosts live under leases: two renewals fit into one.
const LEASED: Setup = Setup {
    name: "lease",
    lease: Some(6),
    ..CALM
};

#[test]
fn a_lease_may_run_out_under_one_client_at_any_moment() {
    for past in [Past::New, Past::Saved, Past::Alive, Past::Crashed] {
        holds(&Setup {
            name: "one lease",
            past,
            faults: &[
                Fault::Crash,
                Fault::Suspend,
                Fault::Cut,
                Fault::Disconnect,
                Fault::Reboot,
                Fault::Hang,
            ],
            budget: Budget {
                faults: 1,
                ..CALM.budget
            },
            ..LEASED
        });
    }
}

#[test]
fn a_host_that_hangs_for_its_user_alone_and_not_for_ec2_is_not_ended() {
    let setup = Setup {
        name: "hung",
        past: Past::Alive,
        clients: &[&[Run::StopHung], &[Run::Connect]],
        faults: &[Fault::Hang, Fault::Cut],
        budget: Budget {
            faults: 2,
            ..CALM.budget
        },
        depth: Some(30),
        ..CALM
    };
    is_caught(Broken::HungUnchecked, P2, &setup);
}

/// The first client sleeps while its user works, and wakes at any moment; the second one comes, and
/// reaches no host.
const SLEEPER: Setup = Setup {
    name: "sleeper",
    past: Past::Alive,
    asleep: &[(0, Asleep::Inside)],
    clients: &[&[Run::Connect], &[Run::StopFromAfar]],
    depth: Some(44),
    ..LEASED
};

#[test]
fn a_lease_without_a_margin_is_caught() {
    is_caught(Broken::NoMargin, P2, &SLEEPER);
}

#[test]
fn renewing_at_the_host_before_the_record_is_caught() {
    let setup = Setup {
        name: "host first",
        asleep: &[(0, Asleep::Renewing(3))],
        ..SLEEPER
    };
    is_caught(Broken::HostFirst, P2, &setup);
}

#[test]
fn a_lease_may_run_out_under_a_sleeper_while_another_comes() {
    holds(&Setup {
        name: "sleeper, connect",
        clients: &[&[Run::Connect], &[Run::Connect]],
        ..SLEEPER
    });
    for (name, faults) in [
        ("sleeper, reboot", &[Fault::Reboot][..]),
        ("sleeper, hang", &[Fault::Hang]),
    ] {
        holds(&Setup {
            name,
            faults,
            budget: Budget {
                faults: 1,
                ..CALM.budget
            },
            depth: Some(36),
            ..SLEEPER
        });
    }
}

/// The first client sleeps before a step until its lease may have run out, while another one
/// connects.
fn sleeps_before(asleep: &'static [(u8, Asleep)]) {
    holds(&Setup {
        name: "sleeper on its way",
        past: Past::Saved,
        asleep,
        clients: &[&[Run::Connect], &[Run::Connect]],
        ..SLEEPER
    });
}

#[test]
fn a_lease_may_run_out_on_the_way_in_and_out() {
    sleeps_before(&[(0, Asleep::Before(|step| matches!(step, Step::Raise { .. })))]);
    sleeps_before(&[(
        0,
        Asleep::Before(|step| matches!(step, Step::Attach { .. })),
    )]);
    sleeps_before(&[(0, Asleep::Before(|step| matches!(step, Step::Mount { .. })))]);
    sleeps_before(&[(0, Asleep::Before(|step| matches!(step, Step::Close { .. })))]);
}

#[test]
fn a_sleeper_may_wake_long_after_its_host_is_gone() {
    let wakes = |name, asleep| {
        holds(&Setup {
            name,
            past: Past::Saved,
            asleep,
            clients: &[&[Run::Connect], &[Run::Connect]],
            zones: 2,
            depth: None,
            ..LEASED
        });
    };
    wakes(
        "late raise",
        &[
            (0, Asleep::Before(|step| matches!(step, Step::Raise { .. }))),
            (0, Asleep::On(12)),
        ],
    );
    wakes(
        "late snapshot",
        &[
            (
                0,
                Asleep::Before(|step| matches!(step, Step::Snapshot { .. })),
            ),
            (0, Asleep::On(12)),
        ],
    );
}
