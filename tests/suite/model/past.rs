//! The worlds in which checks begin.

use xdrive::drive::tags::SnapshotKind;
use xdrive::ec2::{AttachmentState, InstanceState, SnapshotState, VolumeState};

use super::copies::Original;
use super::world::{
    Attachment, Bytes, Data, Deadline, Host, Instance, Mount, Snapshot, Thing, Tick, Volume, World,
};

/// The past of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// There is no drive.
    New,
    /// Two sessions, both saved; the older snapshot is still there.
    Saved,
    /// The drive's client was killed in the shell; the instance runs on.
    Alive,
    /// The drive's instance vanished: a volume survived.
    Crashed,
    /// Saved, and two never-used volumes of it are left in two zones.
    Spares,
    /// The first client's instance has the drive. The second one launched its own at the same time,
    /// holds it, and made a volume there: it was too late, and is about to find that out.
    Raced,
    /// Two volumes that were made from one snapshot, each with its own data.
    Forked,
    /// Just saved, so that lists may lack the newest snapshot; a never-used volume of the snapshot
    /// before is left, and the first client has just launched.
    JustSaved,
    /// The drive's instance vanished in its first session: the volume that is left is blank.
    JustMade,
    /// A fork of another drive was just made, so that lists may lack its copy.
    JustForked,
    /// Saved after one session, and then a copy of another drive came: who made it was too late.
    CopiedLate,
    /// Saved, and an instance runs whose client was killed before it logged in.
    Idle,
    /// Saved, and the first client has just launched.
    Launched,
    /// The drive's run is wanted, and runs.
    Running,
    /// The drive's run is wanted, and its host was closed and saved.
    Waiting,
}

impl Past {
    /// Whether the world has only the parts of a drive at rest.
    pub(super) fn is_tidy(self) -> bool {
        matches!(self, Self::New | Self::Saved)
    }

    pub(super) fn world(self, lag: Tick) -> World {
        let mut world = World::new(lag);
        match self {
            Self::New => {}
            Self::Saved => saved(&mut world),
            Self::Alive => {
                let instance = world.fresh_id();
                let volume = used(&mut world, Some(instance));
                runs(&mut world, instance, 0, Some(volume));
            }
            Self::Idle => {
                saved(&mut world);
                launched(&mut world, 0);
            }
            Self::Launched => {
                saved(&mut world);
                launched(&mut world, 1);
            }
            Self::Running => return Self::Alive.world(lag).has_begun(),
            Self::Waiting => return Self::Saved.world(lag).has_begun(),
            Self::Crashed => _ = used(&mut world, None),
            Self::Spares => {
                saved(&mut world);
                let newest = world.snapshots[1].id;
                for zone in [0, 1] {
                    spare(&mut world, newest, 2, zone);
                }
            }
            Self::Raced => {
                saved(&mut world);
                let newest = world.snapshots[1].id;
                let first = world.fresh_id();
                survivor(&mut world, 0b111);
                spare(&mut world, newest, 2, 0);
                let [.., used, spare] = &mut world.volumes[..] else {
                    unreachable!("both were just made");
                };
                let volume = used.id;
                if let (Some(used), Some(spare)) = (&mut used.now, &mut spare.now) {
                    used.state = VolumeState::InUse;
                    used.attachment = Some(Attachment {
                        instance: first,
                        state: AttachmentState::Attached,
                        dies_with_it: false,
                    });
                    (used.session, spare.session) = (1, 5);
                }
                runs(&mut world, first, 1, Some(volume));
                let second = world.fresh_id();
                runs(&mut world, second, 5, None);
                world.hosts[1].client = Some(1);
            }
            Self::Forked => {
                saved(&mut world);
                survivor(&mut world, 0b0111);
                survivor(&mut world, 0b1011);
            }
            Self::JustSaved => {
                saved(&mut world);
                let newest = world.snapshots.pop().map(|thing| (thing.id, thing.now));
                if let Some((id, Some(newest))) = newest {
                    world.snapshots.push(Thing::new(id, newest, world.now));
                }
                let older = world.snapshots[0].id;
                spare(&mut world, older, 1, 0);
                launched(&mut world, 1);
            }
            Self::JustForked => {
                world.add_copy(Original::Short, SnapshotState::Completed);
                world.acknowledge(Original::Short);
            }
            Self::CopiedLate => {
                saved(&mut world);
                world.snapshots.pop();
                (world.acknowledged, world.written) = (0b1, 1);
                world.add_copy(Original::Long, SnapshotState::Completed);
            }
            Self::JustMade => {
                let (id, of) = (world.fresh_id(), world.fresh_id());
                let only = snapshot(of, 1);
                world.snapshots.push(Thing::new(id, only, world.now));
                *world.bytes_mut(id) = Bytes {
                    formatted: true,
                    dirty: false,
                    data: 1,
                    ..Bytes::default()
                };
                world.acknowledged = 1;
                world.written = 1;
                let id = world.fresh_id();
                let blank = Volume {
                    generation: 0,
                    formatted: false,
                    ..volume()
                };
                world.volumes.push(Thing::settled(id, blank));
                launched(&mut world, 1);
            }
        }
        world
    }
}

fn runs(world: &mut World, instance: u8, session: u8, volume: Option<u8>) {
    world.instances.push(Thing::settled(
        instance,
        Instance {
            state: InstanceState::Running,
            zone: 0,
            session,
            token: 0,
            until: Deadline::NEVER,
            disk: volume.map(|volume| (volume, false)),
            thrown: None,
            why: None,
        },
    ));
    world.hosts.push(Host {
        instance,
        client: None,
        closing: false,
        mounted: volume.map_or(Mount::Nothing, Mount::Writable),
        unmounted: None,
        off_in: None,
        noticed: false,
        ends: Deadline::NEVER,
        run: None,
    });
}

/// A volume of that snapshot that was never attached.
fn spare(world: &mut World, snapshot: u8, generation: u8, zone: u8) {
    let id = world.fresh_id();
    let spare = Volume {
        zone,
        base: generation,
        generation,
        blank: false,
        formatted: false,
        snapshot: Some(snapshot),
        ..volume()
    };
    world.volumes.push(Thing::settled(id, spare));
    let bytes = world.bytes(snapshot);
    world.bytes.push((id, bytes));
}

/// A volume of the newest snapshot that was in use when its instance vanished.
fn survivor(world: &mut World, data: Data) {
    let id = world.fresh_id();
    let survivor = Volume {
        base: 2,
        generation: 3,
        blank: false,
        snapshot: Some(world.snapshots[1].id),
        ..volume()
    };
    world.volumes.push(Thing::settled(id, survivor));
    *world.bytes_mut(id) = Bytes {
        formatted: true,
        dirty: true,
        data,
        ..Bytes::default()
    };
    world.acknowledged |= data;
    world.written = 4;
}

/// The session has an instance, and logs in next, if it is one of the first client's.
fn launched(world: &mut World, session: u8) {
    let instance = world.fresh_id();
    runs(world, instance, session, None);
}

pub(super) fn snapshot(of: u8, generation: u8) -> Snapshot {
    Snapshot {
        state: SnapshotState::Completed,
        volume: Some(of),
        generation,
        kind: SnapshotKind::Clean,
        op: generation,
        number: 0,
        mark: None,
        forked: None,
        run: None,
    }
}

fn volume() -> Volume {
    Volume {
        state: VolumeState::Available,
        zone: 0,
        session: 0,
        token: 0,
        snapshot: None,
        attachment: None,
        base: 0,
        generation: 1,
        blank: true,
        formatted: true,
        thrown: None,
        run: None,
    }
}

/// A volume with data, attached or not.
fn used(world: &mut World, to: Option<u8>) -> u8 {
    let id = world.fresh_id();
    let attachment = to.map(|instance| Attachment {
        instance,
        state: AttachmentState::Attached,
        dies_with_it: false,
    });
    let used = Volume {
        state: if to.is_some() {
            VolumeState::InUse
        } else {
            VolumeState::Available
        },
        attachment,
        ..volume()
    };
    world.volumes.push(Thing::settled(id, used));
    *world.bytes_mut(id) = Bytes {
        formatted: true,
        dirty: true,
        data: 1,
        ..Bytes::default()
    };
    world.acknowledged = 1;
    world.written = 1;
    id
}

fn saved(world: &mut World) {
    for (generation, data) in [(1, 0b1), (2, 0b11)] {
        let id = world.fresh_id();
        let of = world.fresh_id();
        world
            .snapshots
            .push(Thing::settled(id, snapshot(of, generation)));
        *world.bytes_mut(id) = Bytes {
            formatted: true,
            dirty: false,
            data,
            ..Bytes::default()
        };
    }
    world.acknowledged = 0b11;
    world.written = 2;
}
