//! A client that deletes or renames the drive, beside one that uses it.

use std::collections::BTreeSet;

use xdrive::drive::plan::Step;
use xdrive::ids::SnapshotId;

use super::broken::Broken;
use super::check::{Asleep, Budget, Old, P1_SHOWN, P1_USED, Setup};
use super::client::Run;
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;
use super::values;
use super::world::{Mount, Promise, World};

impl World {
    /// A snapshot goes because its user deletes the drive. With the last of them its data is wanted no
    /// more: until then the newest has all.
    pub(super) fn erase(&mut self, id: u8, was_shown: bool) {
        self.demand_rest();
        if !was_shown {
            self.broken.insert(Promise::Unshown);
        }
        self.delete_snapshot(id);
        if self.snapshots.iter().all(|thing| thing.now.is_none()) {
            self.forgive();
        }
    }

    /// The snapshots that a list of this moment has.
    pub(super) fn snapshot_ids(&self) -> BTreeSet<SnapshotId> {
        let there = self.snapshots.iter().filter(|it| it.now.is_some());
        there.map(|it| values::snapshot_id(it.id)).collect()
    }

    /// A snapshot gets the other name, because its user renames the drive.
    pub(super) fn rename(&mut self, id: u8) {
        self.demand_rest();
        self.set_aside(id);
    }

    fn demand_rest(&mut self) {
        let is_used = |mounted: &Mount| matches!(mounted, Mount::Writable(_));
        if self.hosts.iter().any(|host| is_used(&host.mounted)) {
            self.broken.insert(Promise::Left);
        }
    }
}

/// A client that deletes the drive, and one that renames it.
const LEAVE: [&[&[Run]]; 2] = [
    &[&[Run::Connect], &[Run::Delete]],
    &[&[Run::Connect], &[Run::Rename]],
];

/// A client deletes the drive and another one connects. Who comes too late is stuck.
const DELETED: Setup = Setup {
    name: "delete",
    past: Past::Saved,
    clients: &[&[Run::Connect], &[Run::Delete]],
    checks_next_run: false,
    may_be_stuck: true,
    ..CALM
};

#[test]
fn a_drive_is_deleted_or_renamed_whole_whatever_interrupts_that() {
    const ALONE: [&[&[Run]]; 2] = [&[&[Run::Delete]], &[&[Run::Rename]]];
    for clients in ALONE {
        for faults in [
            &[Fault::Crash, Fault::Suspend][..],
            &[Fault::Lost, Fault::Refused, Fault::Twice],
        ] {
            holds(&Setup {
                faults,
                clients,
                checks_next_run: true,
                budget: Budget {
                    faults: 1,
                    stale: 1,
                    ..CALM.budget
                },
                ..DELETED
            });
        }
    }
}

/// A client sleeps before a step, and wakes at any moment of the other one's way.
fn sleeps(asleep: &'static [(u8, Asleep)], depth: usize) -> [Setup; 2] {
    LEAVE.map(|clients| Setup {
        clients,
        asleep,
        budget: Budget {
            stale: 1,
            ..CALM.budget
        },
        old: Old::Snapshots,
        depth: Some(depth),
        ..DELETED
    })
}

#[test]
fn a_drive_that_somebody_connects_to_meanwhile_stays() {
    let before_the_mark = sleeps(
        &[
            (1, Asleep::Before(|step| matches!(step, Step::Mark { .. }))),
            (0, Asleep::Inside),
        ],
        45,
    );
    for setup in before_the_mark {
        is_caught(Broken::LeavesUnseen, P1_USED, &setup);
    }
}

#[test]
fn a_save_made_while_the_question_is_open_stays() {
    let [deleted, _] = sleeps(&[(1, Asleep::Asking), (0, Asleep::Inside)], 110);
    is_caught(Broken::DeletesUnshown, P1_SHOWN, &deleted);
}

#[test]
fn a_drive_that_is_being_deleted_is_not_mounted() {
    // What is read again is the snapshot alone, so the mark is all that keeps another client away.
    let [deleted, _] = sleeps(
        &[(1, Asleep::Again(|step| matches!(step, Step::Erase(_))))],
        60,
    );
    is_caught(Broken::MountsLeaving, P1_USED, &deleted);
}

#[test]
fn a_drive_that_is_being_renamed_is_not_mounted() {
    let [_, renamed] = sleeps(
        &[(
            1,
            Asleep::Before(|step| matches!(step, Step::Rename { .. })),
        )],
        60,
    );
    is_caught(Broken::MountsLeaving, P1_USED, &renamed);
}

#[test]
fn one_that_connects_may_sleep_while_the_drive_leaves() {
    for past in [Past::Launched, Past::Saved] {
        let before_its_raise = sleeps(
            &[(0, Asleep::Before(|step| matches!(step, Step::Raise { .. })))],
            45,
        );
        let before_its_launch = sleeps(
            &[(
                0,
                Asleep::Before(|step| matches!(step, Step::Launch { .. })),
            )],
            45,
        );
        let asleep = match past {
            Past::Launched => before_its_raise,
            _ => before_its_launch,
        };
        for setup in asleep {
            holds(&Setup { past, ..setup });
        }
    }
}
