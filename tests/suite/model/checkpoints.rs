//! Checkpoints of the drive in use, which prove nothing, and forks, which keep a lineage that was
//! not chosen.

use xdrive::drive::observed::Attempt;
use xdrive::drive::tags::SnapshotKind;
use xdrive::ec2::SnapshotState;

use super::broken::Broken;
use super::check::{Budget, P1, P3_OLDER, Setup};
use super::client::{Client, Run};
use super::configurations::{CALM, holds, is_caught};
use super::events::Fault;
use super::past::Past;
use super::values;
use super::world::{Mount, World};

impl World {
    /// The volume that this client has mounted, if a checkpoint of it may be taken now.
    pub(super) fn can_checkpoint(&self, client: u8) -> Option<u8> {
        let volume = self.hosts.iter().find_map(|host| match host.mounted {
            Mount::Writable(volume) if host.client == Some(client) && !host.closing => Some(volume),
            _ => None,
        })?;
        if self.is_thrown(volume) {
            return None;
        }
        let pending = self.snapshots.iter().filter_map(|thing| thing.now.as_ref());
        let mut pending = pending.filter(|made| made.state == SnapshotState::Pending);
        let is_free = pending.all(|made| made.volume != Some(volume));
        is_free.then_some(volume)
    }

    /// A snapshot is deleted, under any drive's name.
    pub(super) fn delete_snapshot(&mut self, id: u8) {
        self.aside.retain(|(known, _)| *known != id);
        if self.snapshots.iter().any(|thing| thing.id == id) {
            self.remove_snapshot(id);
        }
    }

    /// A volume or snapshot gets another drive's name, and leaves this one's lists.
    pub(super) fn set_aside(&mut self, id: u8) {
        if self.volume(id).is_none() && self.snapshot(id).is_none() {
            return;
        }
        let bytes = self.bytes(id);
        self.aside.push((id, bytes));
        self.kept_aside |= bytes.data;
        if self.volume(id).is_some() {
            self.remove_volume(id);
        } else {
            self.remove_snapshot(id);
        }
        self.forgive();
    }
}

impl Client {
    /// Written data is synced, and a snapshot requested, in one action: the session goes on
    /// whatever the snapshot's result.
    pub(super) fn checkpoint(&mut self, world: &mut World) {
        let Some(volume) = world.can_checkpoint(self.slot) else {
            return;
        };
        let kind = SnapshotKind::Checkpoint;
        let generation = world.volume(volume).map_or(0, |volume| volume.generation);
        let op = self.token();
        let at = values::moment(world.now);
        let run = world.volume(volume).and_then(|volume| volume.run);
        let made = world.create_snapshot(volume, generation, kind, op, run);
        let overlay = self.know();
        overlay.me.attempts.push(Attempt {
            volume: values::volume_id(volume),
            op: values::op(op),
            kind,
            at,
        });
        if let Ok((id, record)) = made {
            let value = values::snapshot(id, &record);
            overlay.snapshots.insert(value.id.clone(), (value, at));
        }
    }
}

/// A session with a checkpoint, and another session after it.
const CHECKPOINTED: Setup = Setup {
    name: "checkpoint",
    past: Past::Saved,
    clients: &[&[Run::Connect, Run::Connect]],
    faults: &[Fault::Checkpoint],
    budget: Budget {
        faults: 2,
        ..CALM.budget
    },
    ..CALM
};

#[test]
fn a_checkpoint_that_counts_as_a_save_is_caught() {
    let setup = Setup {
        clients: &[&[Run::Connect]],
        faults: &[Fault::Checkpoint, Fault::Death],
        ..CHECKPOINTED
    };
    is_caught(Broken::CheckpointSaves, P1, &setup);
}

#[test]
fn a_checkpoint_that_is_preferred_is_caught() {
    let setup = Setup {
        budget: Budget {
            faults: 1,
            ..CALM.budget
        },
        ..CHECKPOINTED
    };
    is_caught(Broken::CheckpointFirst, P3_OLDER, &setup);
}

#[test]
fn two_lines_are_left_alone_until_somebody_chooses() {
    const TWO: &[&[Run]] = &[&[Run::FromVolume(5)], &[Run::Stop]];
    let faults = &[Fault::Crash, Fault::Lost, Fault::Refused, Fault::Twice];
    let forked = Setup {
        name: "two lines",
        past: Past::Forked,
        faults,
        budget: Budget {
            faults: 1,
            ..CALM.budget
        },
        may_be_stuck: true,
        ..CALM
    };
    holds(&forked);
    from("from a volume", &[&[Run::FromVolume(5)]], None, &forked);
    from("from a snapshot", &[&[Run::FromSnapshot(3)]], None, &forked);
    from("from, another comes", TWO, Some(30), &forked);
}

fn from(
    name: &'static str,
    clients: &'static [&'static [Run]],
    depth: Option<usize>,
    forked: &Setup,
) {
    holds(&Setup {
        name,
        clients,
        depth,
        ..forked.clone()
    });
}
