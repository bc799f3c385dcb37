//! A client that throws away what it changes, alone and beside others; and the checks of what it leaves
//! behind: nothing of it becomes a state of the drive.

use xdrive::drive::plan::Step;
use xdrive::ec2::SnapshotState;

use super::broken::Broken;
use super::check::{Asleep, Budget, Old, P1, P1_APART, P1_ORIGIN, Setup};
use super::client::Run;
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;
use super::world::{Promise, World};

impl World {
    /// Whether a session throws the volume away.
    pub(super) fn is_thrown(&self, volume: u8) -> bool {
        self.volume(volume).is_some_and(|it| it.thrown.is_some())
    }

    /// Whether a session was to throw the volume away, and the snapshot that it was made from is gone.
    pub(super) fn is_orphan(&self, volume: u8) -> bool {
        let origin = self.volume(volume).and_then(|it| it.snapshot);
        let origin = origin.and_then(|id| self.snapshot(id));
        let is_there = origin.is_some_and(|it| it.state == SnapshotState::Completed);
        self.is_thrown(volume) && !is_there
    }

    /// A snapshot is of what is kept.
    pub(super) fn demand_kept(&mut self, volume: u8) {
        if self.is_thrown(volume) {
            self.broken.insert(Promise::Mixed);
        }
    }

    /// Demands that a volume that is thrown away is mounted by the session that does so.
    pub(super) fn demand_own(&mut self, volume: u8, session: u8) {
        let thrown = self.volume(volume).and_then(|it| it.thrown);
        if thrown.is_some_and(|by| by != session) {
            self.broken.insert(Promise::Mixed);
        }
    }

    /// A throwaway volume goes before the snapshot that it was made from.
    pub(super) fn demand_origin(&mut self, volume: u8) {
        if self.is_orphan(volume) {
            self.broken.insert(Promise::OriginGone);
        }
    }
}

/// A session that saves nothing.
const DISCARDED: Setup = Setup {
    name: "discard",
    past: Past::Saved,
    clients: &[&[Run::Discard]],
    ..CALM
};

/// A session that saves nothing, killed, and one of the same laptop after it that is saved.
const THEN_SAVED: &[&[Run]] = &[&[Run::Discard, Run::Connect]];

const ONE_FAULT: Budget = Budget {
    faults: 1,
    ..CALM.budget
};

#[test]
fn a_session_that_saves_nothing_leaves_the_drive_as_it_was() {
    for past in [Past::Saved, Past::Spares] {
        holds(&Setup { past, ..DISCARDED });
    }
    // Nothing is saved, or not all: it is refused.
    for past in [Past::New, Past::Alive, Past::Crashed, Past::Idle] {
        holds(&Setup { past, ..DISCARDED });
    }
}

#[test]
fn whatever_interrupts_it_the_next_run_ends_it() {
    let troubles: [&[Fault]; 4] = [
        &[Fault::Crash, Fault::Suspend, Fault::Disconnect],
        &[Fault::Lost, Fault::Refused, Fault::Twice],
        &[Fault::Death, Fault::Notice, Fault::Reboot, Fault::Freeze],
        &[Fault::SlowCloud, Fault::Cut],
    ];
    for faults in troubles {
        holds(&Setup {
            name: "discard, one fault",
            faults,
            clients: THEN_SAVED,
            budget: ONE_FAULT,
            ..DISCARDED
        });
    }
}

#[test]
fn it_lives_under_a_lease() {
    holds(&Setup {
        name: "discard, lease",
        faults: &[Fault::Crash, Fault::Suspend],
        lease: Some(3),
        budget: ONE_FAULT,
        ..DISCARDED
    });
}

#[test]
fn beside_one_that_uses_the_drive_one_of_them_comes_too_late() {
    holds(&Setup {
        name: "discard, another connects",
        clients: &[&[Run::Discard], &[Run::Connect]],
        depth: Some(40),
        ..DISCARDED
    });
    holds(&Setup {
        name: "discard, another discards",
        clients: &[&[Run::Discard], &[Run::Discard]],
        depth: Some(40),
        ..DISCARDED
    });
}

/// A session that saves nothing is killed while its user works, and another laptop comes.
const ABANDONED: Setup = Setup {
    name: "discard, killed",
    clients: &[&[Run::Discard], &[Run::Connect]],
    asleep: &[(0, Asleep::Inside), (0, Asleep::Dropped)],
    old: Old::Snapshots,
    budget: Budget {
        stale: 1,
        ..CALM.budget
    },
    checks_next_run: false,
    depth: Some(60),
    ..DISCARDED
};

#[test]
fn a_throwaway_volume_that_counts_as_the_newest_is_caught() {
    let setup = Setup {
        faults: &[Fault::Crash],
        clients: THEN_SAVED,
        budget: ONE_FAULT,
        checks_next_run: false,
        ..DISCARDED
    };
    is_caught(Broken::ThrowawayIsNewest, P1_APART, &setup);
}

#[test]
fn a_throwaway_volume_that_is_deleted_without_its_snapshot_is_caught() {
    let setup = Setup {
        faults: &[Fault::Console],
        budget: ONE_FAULT,
        may_be_stuck: true,
        ..DISCARDED
    };
    is_caught(Broken::OriginUnneeded, P1_ORIGIN, &setup);
}

#[test]
fn a_drive_that_is_taken_for_a_throwaway_volume_is_caught() {
    let setup = Setup {
        clients: &[&[Run::Connect]],
        faults: &[Fault::Crash, Fault::Death],
        budget: ONE_FAULT,
        checks_next_run: false,
        ..DISCARDED
    };
    is_caught(Broken::DiscardsDrive, P1, &setup);
}

#[test]
fn who_discards_may_sleep_while_another_uses_the_drive() {
    for asleep in [
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::AttachThrowaway { .. })),
        )][..],
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::Launch { .. })),
        )],
        &[(
            0,
            Asleep::Again(|step| matches!(step, Step::DeleteVolume(_))),
        )],
    ] {
        holds(&Setup {
            name: "discard, asleep",
            asleep,
            depth: Some(45),
            ..ABANDONED
        });
    }
}
