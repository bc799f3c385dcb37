//! A run that is wanted, and whoever tends it: passes that are killed, sleep or meet each other, hosts that
//! die, capacity that comes and goes, and users who connect or stop meanwhile.

use xdrive::drive::plan::Step;

use super::broken::Broken;
use super::check::{Asleep, Budget, P10_ON, P10_ONCE, P10_OVER, Setup};
use super::client::Run;
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;
use super::tender::Tending;

/// A pass over a drive whose run waits. Who is killed leaves a host that ends with its lease.
const TENDED: Setup = Setup {
    name: "tend",
    past: Past::Waiting,
    clients: &[&[Run::Tend]],
    lease: Some(6),
    ..CALM
};

const ONE_FAULT: Budget = Budget {
    faults: 1,
    ..CALM.budget
};

/// Two passes, one after the other.
const TWICE: &[&[Run]] = &[&[Run::Tend, Run::Tend]];

fn whatever_happens(name: &'static str, past: Past, faults: &'static [Fault]) {
    holds(&Setup {
        name,
        past,
        clients: TWICE,
        faults,
        budget: ONE_FAULT,
        ..TENDED
    });
}

#[test]
fn a_run_that_is_wanted_is_begun_again_wherever_who_tends_it_was_killed() {
    let troubles = &[Fault::Crash, Fault::Suspend, Fault::Disconnect];
    whatever_happens("tend, killed", Past::Waiting, troubles);
    let calls = &[Fault::Lost, Fault::Refused, Fault::Twice];
    whatever_happens("tend, calls", Past::Waiting, calls);
}

#[test]
fn a_run_that_is_wanted_is_begun_again_whenever_its_host_is_lost() {
    let losses = &[Fault::Death, Fault::Notice, Fault::Reboot];
    whatever_happens("tend, host lost", Past::Running, losses);
    whatever_happens("tend, host lost again", Past::Waiting, losses);
    whatever_happens("tend, console", Past::Running, &[Fault::Console]);
}

#[test]
fn a_run_that_was_lost_is_begun_again_after_somebody_used_the_drive() {
    holds(&Setup {
        name: "connect, tend",
        past: Past::Running,
        clients: &[&[Run::Connect, Run::Tend]],
        faults: &[Fault::Reboot, Fault::Death, Fault::Notice],
        budget: ONE_FAULT,
        ..TENDED
    });
}

#[test]
fn a_run_that_is_wanted_is_begun_again_once_there_is_capacity() {
    whatever_happens("tend, no capacity", Past::Waiting, &[Fault::Capacity]);
}

/// A run ends while EC2 takes its host, or by itself.
const ENDS: Setup = Setup {
    name: "tend, run ends",
    past: Past::Running,
    clients: TWICE,
    faults: &[Fault::RunEnds, Fault::Notice, Fault::Death],
    budget: Budget {
        faults: 2,
        ..CALM.budget
    },
    ..TENDED
};

#[test]
fn a_run_that_is_begun_again_after_its_end_is_caught() {
    is_caught(Broken::EndUnread, P10_OVER, &ENDS);
}

#[test]
fn a_save_that_forgets_what_is_wanted_is_caught() {
    is_caught(Broken::ForgetsRun, P10_ON, &ENDS);
}

#[test]
fn two_who_tend_a_run_and_its_user_come_to_one_try() {
    const TENDERS: &[&[Run]] = &[&[Run::Tend], &[Run::Tend]];
    const CONNECT: &[&[Run]] = &[&[Run::Tend], &[Run::Connect]];
    const STOP: &[&[Run]] = &[&[Run::Tend], &[Run::Stop]];
    for (name, clients) in [
        ("two tend", TENDERS),
        ("tend, connect", CONNECT),
        ("tend, stop", STOP),
    ] {
        holds(&Setup {
            name,
            clients,
            budget: Budget {
                stale: 1,
                ..CALM.budget
            },
            depth: Some(44),
            ..TENDED
        });
    }
}

/// Both are on their way. One sleeps before it begins the try, so long that its host drops its connection.
const BOTH: Setup = Setup {
    name: "tend, both",
    clients: &[&[Run::Tend], &[Run::Tend]],
    asleep: &[
        (
            1,
            Asleep::Before(|step| matches!(step, Step::Launch { .. })),
        ),
        (0, Asleep::Tending(|it| matches!(it, Tending::Begin(..)))),
        (0, Asleep::Dropped),
    ],
    depth: Some(60),
    ..TENDED
};

#[test]
fn a_try_that_is_begun_twice_is_caught() {
    is_caught(Broken::NoFence, P10_ONCE, &BOTH);
}
