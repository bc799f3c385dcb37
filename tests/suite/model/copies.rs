//! A client that begins the drive as a copy of another one's snapshot, beside others that want its
//! name. What is copied is outside of this world, and stays as it is whatever becomes of the copy.
//!
//! A fork that reports its success has promised its bytes: they count as acknowledged from then on.
//! Two that begin the drive in the same moment leave two lineages, which nothing in EC2 prevents.
//! Then at most one of them has reported its success, and nobody mounts either of the two.

use xdrive::drive::plan::{Goal, Step};
use xdrive::drive::tags::SnapshotKind;
use xdrive::drive::{CopyOrder, CopySource};
use xdrive::ec2::SnapshotState;

use super::broken::Broken;
use super::calls::Call;
use super::check::{Asleep, Budget, Old, P1, P3_FORK, P3_OLDER, P3_WHOLE, P4_ONCE, Setup};
use super::client::{At, Client, End, Rules, Run};
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;
use super::steps::{Failure, Made};
use super::values;
use super::world::{Bytes, Data, Promise, Snapshot, Thing, Tick, World};

/// The newest snapshot of another drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Original {
    /// Of a drive of one session: no newer than a drive that somebody begins meanwhile.
    Short,
    /// Of a drive of two sessions.
    Long,
}

/// A copy that was ordered.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Ordered {
    copy: u8,
    session: u8,
    /// The call's own number: one that arrives twice has it twice.
    token: u8,
}

impl Original {
    const ALL: [Self; 2] = [Self::Short, Self::Long];

    /// The original's id: higher than any in this world.
    pub(super) fn id(self) -> u8 {
        match self {
            Self::Short => 0xf1,
            Self::Long => 0xf2,
        }
    }

    pub(super) fn generation(self) -> u8 {
        match self {
            Self::Short => 1,
            Self::Long => 2,
        }
    }

    /// The original's bytes, which nobody in this world writes.
    fn data(self) -> Data {
        match self {
            Self::Short => 1 << 14,
            Self::Long => 1 << 15,
        }
    }

    fn from_order(order: &CopyOrder) -> Option<Self> {
        let CopySource::Snapshot(id) = &order.source else {
            return None;
        };
        let number = values::number(id.as_str());
        Self::ALL.into_iter().find(|known| known.id() == number)
    }
}

impl World {
    /// Makes a copy. A session that orders another one while it has one pays for two.
    pub(super) fn copy_original(
        &mut self,
        original: Original,
        session: u8,
        token: u8,
    ) -> (u8, Snapshot) {
        let mut earlier = self.ordered.iter();
        let has_one = earlier.any(|it| {
            it.session == session && it.token != token && self.snapshot(it.copy).is_some()
        });
        if has_one {
            self.broken.insert(Promise::CopiedTwice);
        }
        let (copy, made) = self.add_copy(original, SnapshotState::Pending);
        self.ordered.push(Ordered {
            copy,
            session,
            token,
        });
        (copy, made)
    }

    /// A copy that was made right now.
    pub(super) fn add_copy(&mut self, original: Original, state: SnapshotState) -> (u8, Snapshot) {
        let id = self.fresh_id();
        *self.bytes_mut(id) = Bytes {
            formatted: true,
            dirty: false,
            data: original.data(),
            ..Bytes::default()
        };
        let copy = Snapshot {
            state,
            volume: None,
            generation: original.generation(),
            kind: SnapshotKind::Clean,
            op: 0,
            number: 0,
            mark: None,
            forked: Some(original),
            run: None,
        };
        self.snapshots.push(Thing::new(id, copy.clone(), self.now));
        (id, copy)
    }

    /// Records that the user is told that the drive is a copy of `original`, which somebody may
    /// have deleted since.
    pub(super) fn acknowledge(&mut self, original: Original) {
        let mut there = self.snapshots.iter().filter_map(|thing| thing.now.as_ref());
        if there.any(|it| it.forked == Some(original)) {
            self.acknowledged |= original.data();
        }
    }

    /// Whether one state of the drive has all acknowledged data.
    pub(super) fn is_whole(&self) -> bool {
        let volumes = self.volumes.iter().filter(|thing| thing.now.is_some());
        let volumes = volumes.map(|thing| thing.id);
        let volumes = volumes.filter(|id| !self.is_thrown(*id));
        let snapshots = self.snapshots.iter().filter(|thing| thing.now.is_some());
        let mut states = volumes.chain(snapshots.map(|thing| thing.id));
        let has_all = |id: u8| self.acknowledged & !self.bytes(id).data == 0;
        self.acknowledged == 0 || states.any(has_all)
    }

    /// Whether a fork of `original` finds nothing of this name but its own copies.
    pub(super) fn is_new_for(&self, original: Original) -> bool {
        let is_own = |it: &Snapshot| it.forked == Some(original) && it.mark.is_none();
        let mut instances = self.instances.iter().filter_map(|thing| thing.now.as_ref());
        let mut snapshots = self.snapshots.iter().filter_map(|thing| thing.now.as_ref());
        !instances.any(|it| it.state.is_live())
            && self.volumes.iter().all(|thing| thing.now.is_none())
            && snapshots.all(is_own)
    }
}

impl Client {
    /// The call of a copy. The look that it rests on is of this moment, as it is for a proof.
    pub(super) fn copy(
        &mut self,
        order: &CopyOrder,
        now: Tick,
        rules: &Rules,
    ) -> Result<Call, Result<Made, Failure>> {
        let At::Acting { seen, .. } = &self.at else {
            return Err(Err(Failure::Changed));
        };
        let is_old = values::age(seen.began, now) > 0;
        if is_old && rules.broken != Some(Broken::CopiesOnOldLook) {
            return Err(Err(Failure::Changed));
        }
        let Some(original) = Original::from_order(order) else {
            return Err(Err(Failure::Changed));
        };
        Ok(Call::Copy(original, self.session, self.token()))
    }

    /// The original of the drive's copy, if this client has just reported that.
    pub(super) fn has_copied(&self) -> Option<Original> {
        match (&self.at, &self.goal) {
            (At::Over(End::Saved), Goal::Copied(order)) => Original::from_order(order),
            _ => None,
        }
    }
}

const FORK: Run = Run::Fork(Original::Long);

/// A fork, and whoever connects to the drive that it made.
const FORKED: Setup = Setup {
    name: "fork",
    clients: &[&[FORK, Run::Connect]],
    ..CALM
};

/// The fork with one fault and one stale read.
const TROUBLED: Setup = Setup {
    name: "fork, one fault",
    clients: &[&[FORK]],
    budget: Budget {
        faults: 1,
        stale: 1,
        ..CALM.budget
    },
    ..FORKED
};

#[test]
fn a_fork_has_the_bytes_of_its_original_and_a_taken_name_stays_as_it_is() {
    holds(&FORKED);
    for past in [
        Past::Saved,
        Past::Alive,
        Past::Crashed,
        Past::Spares,
        Past::Idle,
        Past::JustForked,
    ] {
        holds(&Setup {
            name: "fork, taken",
            past,
            clients: &[&[FORK]],
            ..FORKED
        });
    }
}

#[test]
fn whatever_interrupts_a_fork_the_next_run_goes_on_with_it() {
    for faults in [
        &[Fault::Crash, Fault::Suspend, Fault::SlowCloud][..],
        &[Fault::Lost, Fault::Refused, Fault::Twice],
    ] {
        holds(&Setup { faults, ..TROUBLED });
        holds(&Setup {
            clients: &[&[FORK, FORK]],
            faults,
            ..TROUBLED
        });
    }
    // A copy may fail, or be deleted by hand.
    holds(&Setup {
        faults: &[Fault::SnapshotError, Fault::Console],
        may_be_stuck: true,
        ..TROUBLED
    });
}

#[test]
fn a_fork_that_orders_a_second_copy_after_a_lost_answer_is_caught() {
    let setup = Setup {
        faults: &[Fault::Lost],
        ..TROUBLED
    };
    is_caught(Broken::CopiesAgain, P4_ONCE, &setup);
}

#[test]
fn a_fork_that_takes_a_pending_copy_for_made_is_caught() {
    let setup = Setup {
        faults: &[Fault::SlowCloud],
        budget: Budget {
            faults: 2,
            ..CALM.budget
        },
        ..TROUBLED
    };
    is_caught(Broken::PendingIsCopied, P1, &setup);
}

#[test]
fn a_fork_that_copies_on_an_old_look_is_caught() {
    let setup = Setup {
        name: "fork, old look",
        clients: &[&[FORK], &[Run::Connect]],
        asleep: &[
            (
                0,
                Asleep::Before(|step| matches!(step, Step::CopySnapshot(_))),
            ),
            (1, Asleep::Inside),
        ],
        depth: Some(45),
        ..CALM
    };
    is_caught(Broken::CopiesOnOldLook, P3_FORK, &setup);
}

#[test]
fn a_copy_that_came_too_late_is_not_taken_for_the_newest_state() {
    let setup = Setup {
        name: "late copy",
        past: Past::CopiedLate,
        may_be_forked: true,
        may_be_stuck: true,
        ..CALM
    };
    is_caught(Broken::CopyIsNewest, P3_OLDER, &setup);
}

/// Two clients that want the drive's name at once.
const AT_ONCE: Setup = Setup {
    name: "fork, at once",
    budget: Budget {
        stale: 1,
        ..CALM.budget
    },
    ..CALM
};

#[test]
fn two_forks_of_one_original_make_one_drive() {
    holds(&Setup {
        clients: &[&[FORK], &[FORK]],
        ..AT_ONCE
    });
}

#[test]
fn of_two_forks_to_one_name_at_most_one_reports_success() {
    let setup = Setup {
        clients: &[&[FORK], &[Run::Fork(Original::Short)]],
        budget: Budget {
            stale: 2,
            ..CALM.budget
        },
        may_be_forked: true,
        may_be_stuck: true,
        ..AT_ONCE
    };
    is_caught(Broken::SeesOnlyItsCopy, P3_WHOLE, &setup);
}

#[test]
fn one_that_connects_to_a_new_name_while_it_is_forked_to_loses_nothing() {
    const BOTH: [&[&[Run]]; 2] = [
        &[&[FORK], &[Run::Connect]],
        &[&[Run::Fork(Original::Short)], &[Run::Connect]],
    ];
    for clients in BOTH {
        holds(&Setup {
            name: "fork, another connects",
            clients,
            may_be_forked: true,
            may_be_stuck: true,
            old: Old::Snapshots,
            depth: Some(45),
            ..AT_ONCE
        });
    }
}

#[test]
fn a_name_may_be_deleted_or_renamed_while_it_is_forked_to() {
    const LEAVE: [&[&[Run]]; 2] = [&[&[FORK], &[Run::Delete]], &[&[FORK], &[Run::Rename]]];
    for clients in LEAVE {
        for past in [Past::New, Past::Saved, Past::JustForked] {
            holds(&Setup {
                name: "fork, another leaves",
                past,
                clients,
                may_be_stuck: true,
                old: Old::Snapshots,
                depth: Some(60),
                ..AT_ONCE
            });
        }
    }
}
