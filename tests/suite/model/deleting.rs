//! A client that deletes the drive, beside one that uses it.

use xdrive::drive::plan::Step;

use super::broken::Broken;
use super::check::{Asleep, Budget, Old, P1_USED, Setup};
use super::client::Run;
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;
use super::world::{Mount, Promise, World};

impl World {
    /// A snapshot goes because its user deletes the drive. With the last of them its data is wanted no
    /// more: until then the newest has all.
    pub(super) fn discard(&mut self, id: u8) {
        let is_used = |mounted: &Mount| matches!(mounted, Mount::Writable(_));
        if self.hosts.iter().any(|host| is_used(&host.mounted)) {
            self.broken.insert(Promise::Deleted);
        }
        self.delete_snapshot(id);
        if self.snapshots.iter().all(|thing| thing.now.is_none()) {
            self.forgive();
        }
    }
}

/// One client deletes the drive and another one connects. Who comes too late is stuck.
const DELETED: Setup = Setup {
    name: "delete",
    past: Past::Saved,
    clients: &[&[Run::Connect], &[Run::Delete]],
    checks_next_run: false,
    may_be_stuck: true,
    ..CALM
};

#[test]
fn a_drive_is_deleted_whole_or_not_at_all() {
    for faults in [
        &[Fault::Crash, Fault::Suspend][..],
        &[Fault::Lost, Fault::Refused, Fault::Twice],
    ] {
        holds(&Setup {
            faults,
            clients: &[&[Run::Delete]],
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

/// The one that deletes sleeps, and wakes at any moment of the other one's session.
fn sleeps(asleep: &'static [(u8, Asleep)], depth: usize) -> Setup {
    Setup {
        asleep,
        budget: Budget {
            stale: 1,
            ..CALM.budget
        },
        old: Old::Snapshots,
        depth: Some(depth),
        ..DELETED
    }
}

#[test]
fn a_drive_that_somebody_connects_to_meanwhile_is_not_deleted() {
    let before_the_mark = sleeps(
        &[(
            1,
            Asleep::Before(|step| matches!(step, Step::MarkDeleting(_))),
        )],
        45,
    );
    is_caught(Broken::DeletesUnseen, P1_USED, &before_the_mark);
}

#[test]
fn a_drive_that_is_being_deleted_is_not_mounted() {
    let before_the_first_goes = sleeps(
        &[(1, Asleep::Before(|step| matches!(step, Step::Discard(_))))],
        45,
    );
    is_caught(Broken::MountsDeleted, P1_USED, &before_the_first_goes);
}

#[test]
fn one_that_connects_may_sleep_while_the_drive_is_deleted() {
    let before_the_raise = Setup {
        past: Past::Launched,
        ..sleeps(
            &[(0, Asleep::Before(|step| matches!(step, Step::Raise { .. })))],
            45,
        )
    };
    holds(&before_the_raise);
    let before_its_launch = sleeps(
        &[(
            0,
            Asleep::Before(|step| matches!(step, Step::Launch { .. })),
        )],
        45,
    );
    holds(&before_its_launch);
}
