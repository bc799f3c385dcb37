//! How the world is when a check begins.

use xdrive::drive::tags::SnapshotKind;
use xdrive::ec2::{AttachmentState, InstanceState, SnapshotState, VolumeState};

use super::world::{
    Attachment, Bytes, Due, Host, Instance, Mount, Snapshot, Thing, Tick, Volume, World,
};

/// What came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// There is no drive.
    New,
    /// Two sessions, both saved; the older snapshot is still there.
    Saved,
    /// Its client was killed in the shell; the instance runs on.
    Alive,
    /// Its instance vanished: a volume survived.
    Crashed,
    /// Saved, and two never-used volumes of it are left in two zones.
    Spares,
}

impl Past {
    pub(super) fn world(self, lag: Tick) -> World {
        let mut world = World::new(lag);
        match self {
            Self::New => {}
            Self::Saved => saved(&mut world),
            Self::Alive => {
                let instance = world.fresh_id();
                let volume = used(&mut world, Some(instance));
                world.instances.push(Thing::settled(
                    instance,
                    Instance {
                        state: InstanceState::Running,
                        zone: 0,
                        session: 0,
                        token: 0,
                        until: Due::NEVER,
                        disk: Some((volume, false)),
                    },
                ));
                world.hosts.push(Host {
                    instance,
                    client: None,
                    closing: false,
                    mounted: Mount::Writable(volume),
                    off_in: None,
                });
            }
            Self::Crashed => {
                used(&mut world, None);
            }
            Self::Spares => {
                saved(&mut world);
                let newest = world.snapshots[1].id;
                for zone in [0, 1] {
                    let id = world.fresh_id();
                    let spare = Volume {
                        zone,
                        base: 2,
                        generation: 2,
                        blank: false,
                        formatted: false,
                        snapshot: Some(newest),
                        ..volume()
                    };
                    world.volumes.push(Thing::settled(id, spare));
                    let bytes = world.bytes(newest);
                    world.bytes.push((id, bytes));
                }
            }
        }
        world
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
    }
}

/// A volume with something on it, attached or not.
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
    };
    world.acknowledged = 1;
    world.written = 1;
    id
}

fn saved(world: &mut World) {
    for (generation, data) in [(1, 0b1), (2, 0b11)] {
        let id = world.fresh_id();
        let of = world.fresh_id();
        let snapshot = Snapshot {
            state: SnapshotState::Completed,
            volume: Some(of),
            generation,
            kind: SnapshotKind::Clean,
            op: generation,
        };
        world.snapshots.push(Thing::settled(id, snapshot));
        *world.bytes_mut(id) = Bytes {
            formatted: true,
            dirty: false,
            data,
        };
    }
    world.acknowledged = 0b11;
    world.written = 2;
}
