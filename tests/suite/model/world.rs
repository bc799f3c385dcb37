//! EC2 and its hosts, small enough to be checked exhaustively.
//!
//! Every resource keeps the versions of its record that a stale reader may still see. Facts that no
//! call shows (mounts, bytes) are kept beside the records, and the effects that could break a
//! promise check it against them. Nothing here knows xdrive's rules.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use xdrive::drive::tags::{RunState, SnapshotKind};
use xdrive::ec2::{AttachmentState, InstanceState, SnapshotState, VolumeState};

use super::copies::{Ordered, Original};
use super::runs::{Record, Truth, Why};

/// A moment or a span, in ticks. See [`super::values::TICK`].
pub(super) type Tick = u16;

/// A set of acknowledged writes, one bit each.
pub(super) type Data = u16;

/// A promise that was broken, by its property's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Promise {
    /// P2.
    Terminated,
    /// P3.
    TwoWriters,
    /// P3.
    OlderMounted,
    /// A drive in use was deleted or renamed.
    Left,
    /// A snapshot was deleted with its drive that the user was not shown.
    Unshown,
    /// The volume that a session throws away was snapshotted, or mounted by another one.
    Mixed,
    /// A throwaway volume was deleted, and the snapshot that it was made from is gone.
    OriginGone,
    /// A fork made two copies.
    CopiedTwice,
    /// P10.
    BegunTwice,
    /// P10: a run that had ended, or that its user had stopped.
    BegunOver,
}

/// A resource with an id (a later one has a higher id), as it is and as it may still be shown.
#[derive(Debug, Clone, Hash)]
pub(super) struct Thing<T> {
    pub(super) id: u8,
    /// `None`: not made yet, for readers, or gone.
    pub(super) now: Option<T>,
    /// Older versions, and when each was replaced.
    past: Vec<(Option<T>, Tick)>,
}

/// A moment in a record. It is hashed by its distance from now ([`super::digest`]), not as part of
/// its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline(pub(super) Tick);

impl Deadline {
    /// Later than any check lasts.
    pub(super) const NEVER: Self = Self(Tick::MAX);
}

impl Hash for Deadline {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Instance {
    pub(super) state: InstanceState,
    pub(super) zone: u8,
    pub(super) session: u8,
    pub(super) token: u8,
    /// The end of its lease, as its tag has it.
    pub(super) until: Deadline,
    /// The drive's volume among its disks, and whether it would be deleted with it.
    pub(super) disk: Option<(u8, bool)>,
    /// The session for whose throwaway volume it was launched.
    pub(super) thrown: Option<u8>,
    /// Why it ended, if the drive has a run.
    pub(super) why: Option<Why>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Volume {
    pub(super) state: VolumeState,
    pub(super) zone: u8,
    pub(super) session: u8,
    pub(super) token: u8,
    pub(super) snapshot: Option<u8>,
    pub(super) attachment: Option<Attachment>,
    pub(super) base: u8,
    pub(super) generation: u8,
    pub(super) blank: bool,
    pub(super) formatted: bool,
    /// The session that throws it away.
    pub(super) thrown: Option<u8>,
    /// How far the drive's run is, as its tags have it.
    pub(super) run: Option<RunState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Attachment {
    pub(super) instance: u8,
    pub(super) state: AttachmentState,
    pub(super) dies_with_it: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    pub(super) state: SnapshotState,
    /// `None` for a copy, which AWS marks as one.
    pub(super) volume: Option<u8>,
    pub(super) generation: u8,
    pub(super) kind: SnapshotKind,
    pub(super) op: u8,
    /// A checkpoint's number.
    pub(super) number: u8,
    /// The mark, if the snapshot's drive is being deleted or renamed.
    pub(super) mark: Option<Mark>,
    /// The original that it is a copy of, if its drive began with it.
    pub(super) forked: Option<Original>,
    /// How far the drive's run is, as its tags have it.
    pub(super) run: Option<RunState>,
}

/// The mark of a snapshot that leaves its drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mark {
    Deleting,
    Renaming,
}

/// The state of a host's mountpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mount {
    Nothing,
    Writable(u8),
    Frozen(u8),
}

/// The host on an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) instance: u8,
    /// The client (its slot) that has the lock.
    pub(super) client: Option<u8>,
    pub(super) closing: bool,
    pub(super) mounted: Mount,
    /// The volume that it unmounted since its system started.
    pub(super) unmounted: Option<u8>,
    /// After so many ticks it switches itself off.
    pub(super) off_in: Option<u8>,
    /// Whether EC2 has given it notice.
    pub(super) noticed: bool,
    /// The end of its lease, by its own clock.
    pub(super) ends: Deadline,
    /// The number of the run's try that runs there.
    pub(super) run: Option<u8>,
}

/// The bytes of a volume or a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Bytes {
    pub(super) formatted: bool,
    /// Whether it was not unmounted.
    pub(super) dirty: bool,
    pub(super) data: Data,
    /// The record of the drive's run.
    pub(super) run: Record,
}

/// The world outside the clients.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) now: Tick,
    /// How old a list or a read may be.
    pub(super) lag: Tick,
    /// How long a lease is; `None`: hosts live on without one.
    pub(super) lease: Option<Tick>,
    pub(super) next_id: u8,
    pub(super) instances: Vec<Thing<Instance>>,
    pub(super) volumes: Vec<Thing<Volume>>,
    pub(super) snapshots: Vec<Thing<Snapshot>>,
    pub(super) hosts: Vec<Host>,
    /// By the id of volume or snapshot.
    pub(super) bytes: Vec<(u8, Bytes)>,
    /// The acknowledged data, without what somebody at the console destroyed.
    pub(super) acknowledged: Data,
    /// Lineages that were not chosen, under another drive's name.
    pub(super) aside: Vec<(u8, Bytes)>,
    pub(super) kept_aside: Data,
    pub(super) written: u8,
    /// The copies of other drives that were ordered.
    pub(super) ordered: Vec<Ordered>,
    /// The instances that hang: EC2's own check of them has failed for long enough.
    pub(super) hung: Vec<u8>,
    /// The drive's run, if it has one.
    pub(super) run: Option<Truth>,
    /// Whether EC2 launches instances.
    pub(super) has_capacity: bool,
    pub(super) broken: BTreeSet<Promise>,
}

impl<T: Clone + PartialEq> Thing<T> {
    pub(super) fn settled(id: u8, now: T) -> Self {
        Self {
            id,
            now: Some(now),
            past: Vec::new(),
        }
    }

    /// A resource made right now, which lists may lack.
    pub(super) fn new(id: u8, value: T, now: Tick) -> Self {
        Self {
            id,
            now: Some(value),
            past: vec![(None, now)],
        }
    }

    fn set(&mut self, value: Option<T>, at: Tick) {
        let before = std::mem::replace(&mut self.now, value);
        self.past.push((before, at));
    }

    /// The versions that a reader may see, the truth first.
    pub(super) fn versions(&self) -> Vec<Option<T>> {
        let mut versions = vec![self.now.clone()];
        for (version, _) in self.past.iter().rev() {
            if !versions.contains(version) {
                versions.push(version.clone());
            }
        }
        versions
    }

    /// Forgets versions that no reader may see any more; false if none is left.
    fn prune(&mut self, now: Tick, lag: Tick) -> bool {
        self.past.retain(|(_, replaced)| now - replaced <= lag);
        self.now.is_some() || !self.past.is_empty()
    }

    pub(super) fn past(&self) -> &[(Option<T>, Tick)] {
        &self.past
    }
}

fn find<T>(things: &[Thing<T>], id: u8) -> Option<&Thing<T>> {
    things.iter().find(|thing| thing.id == id)
}

fn change<T: Clone + PartialEq>(
    things: &mut [Thing<T>],
    id: u8,
    at: Tick,
    how: impl FnOnce(&mut T),
) {
    let thing = things.iter_mut().find(|thing| thing.id == id);
    if let Some(thing) = thing
        && let Some(mut value) = thing.now.clone()
    {
        how(&mut value);
        if thing.now.as_ref() != Some(&value) {
            thing.set(Some(value), at);
        }
    }
}

impl World {
    pub(super) fn new(lag: Tick) -> Self {
        Self {
            now: 100,
            lag,
            lease: None,
            next_id: 1,
            instances: Vec::new(),
            volumes: Vec::new(),
            snapshots: Vec::new(),
            hosts: Vec::new(),
            bytes: Vec::new(),
            acknowledged: 0,
            aside: Vec::new(),
            kept_aside: 0,
            written: 0,
            ordered: Vec::new(),
            hung: Vec::new(),
            run: None,
            has_capacity: true,
            broken: BTreeSet::new(),
        }
    }

    pub(super) fn fresh_id(&mut self) -> u8 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(super) fn instance(&self, id: u8) -> Option<&Instance> {
        find(&self.instances, id)?.now.as_ref()
    }

    pub(super) fn volume(&self, id: u8) -> Option<&Volume> {
        find(&self.volumes, id)?.now.as_ref()
    }

    pub(super) fn snapshot(&self, id: u8) -> Option<&Snapshot> {
        find(&self.snapshots, id)?.now.as_ref()
    }

    pub(super) fn host(&self, instance: u8) -> Option<&Host> {
        self.hosts.iter().find(|host| host.instance == instance)
    }

    pub(super) fn host_mut(&mut self, instance: u8) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| host.instance == instance)
    }

    pub(super) fn bytes(&self, id: u8) -> Bytes {
        let known = self.bytes.iter().find(|(known, _)| *known == id);
        known.map(|(_, bytes)| *bytes).unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self, id: u8) -> &mut Bytes {
        let index = self.bytes.iter().position(|(known, _)| *known == id);
        let index = index.unwrap_or_else(|| {
            self.bytes.push((id, Bytes::default()));
            self.bytes.len() - 1
        });
        &mut self.bytes[index].1
    }

    pub(super) fn change_instance(&mut self, id: u8, how: impl FnOnce(&mut Instance)) {
        change(&mut self.instances, id, self.now, how);
    }

    pub(super) fn change_volume(&mut self, id: u8, how: impl FnOnce(&mut Volume)) {
        change(&mut self.volumes, id, self.now, how);
    }

    pub(super) fn change_snapshot(&mut self, id: u8, how: impl FnOnce(&mut Snapshot)) {
        change(&mut self.snapshots, id, self.now, how);
    }

    pub(super) fn add_instance(&mut self, instance: Instance) -> u8 {
        let id = self.fresh_id();
        self.instances.push(Thing::new(id, instance, self.now));
        id
    }

    pub(super) fn add_volume(&mut self, volume: Volume) -> u8 {
        let id = self.fresh_id();
        let bytes = volume.snapshot.map(|snapshot| self.bytes(snapshot));
        self.bytes.push((id, bytes.unwrap_or_default()));
        self.volumes.push(Thing::new(id, volume, self.now));
        id
    }

    /// Adds a snapshot of this moment, whatever the result of its copy.
    pub(super) fn add_snapshot(&mut self, snapshot: Snapshot, of: u8) -> u8 {
        let id = self.fresh_id();
        let bytes = self.bytes(of);
        self.bytes.push((id, bytes));
        self.snapshots.push(Thing::new(id, snapshot, self.now));
        id
    }

    pub(super) fn remove_volume(&mut self, id: u8) {
        let now = self.now;
        if let Some(thing) = self.volumes.iter_mut().find(|thing| thing.id == id) {
            thing.set(None, now);
        }
        self.bytes.retain(|(known, _)| *known != id);
    }

    pub(super) fn remove_snapshot(&mut self, id: u8) {
        let now = self.now;
        if let Some(thing) = self.snapshots.iter_mut().find(|thing| thing.id == id) {
            thing.set(None, now);
        }
        self.bytes.retain(|(known, _)| *known != id);
    }

    /// All data on a volume or in a completed snapshot, which is lost only if somebody deletes it.
    /// A pending snapshot may still fail, and a throwaway volume is no part of the drive.
    pub(super) fn kept_data(&self) -> Data {
        let is_drives = |volume: &Volume| volume.thrown.is_none();
        let volumes = self.volumes.iter();
        let volumes = volumes.filter(|thing| thing.now.as_ref().is_some_and(is_drives));
        let completed = |thing: &&Thing<Snapshot>| {
            let state = thing.now.as_ref().map(|snapshot| snapshot.state);
            state == Some(SnapshotState::Completed)
        };
        let snapshots = self.snapshots.iter().filter(completed);
        volumes
            .map(|thing| thing.id)
            .chain(snapshots.map(|thing| thing.id))
            .fold(0, |kept, id| kept | self.bytes(id).data)
    }

    /// Drops from the acknowledged data what somebody at the console destroyed.
    pub(super) fn forgive(&mut self) {
        self.acknowledged &= self.kept_data();
    }

    /// Forgets old versions of every resource.
    pub(super) fn prune(&mut self) {
        let (now, lag) = (self.now, self.lag);
        self.instances.retain_mut(|thing| thing.prune(now, lag));
        self.volumes.retain_mut(|thing| thing.prune(now, lag));
        self.snapshots.retain_mut(|thing| thing.prune(now, lag));
    }

    /// The instance's system ends, and its mount with it. Every acknowledged byte was synced
    /// before, so all of them are on the volume.
    pub(super) fn lose_host(&mut self, instance: u8) {
        self.hosts.retain(|host| host.instance != instance);
    }
}
