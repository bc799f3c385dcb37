//! The instances and disks that a drive has had, from what EC2 lists of it.
//!
//! A snapshot, and the volume that is not saved yet, carry the record of their generation: which instance had the
//! drive, and since when. A session that was closed by xdrive ended within seconds of its snapshot, since its
//! instance is terminated as soon as that is begun; of a `crashed` one the snapshot's time is only the latest that
//! it can be. Checkpoints and the last snapshot of one instance have one record.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::unknown::{Generations, Unknown};
use crate::drive::tags::{self, Record, Settings, SnapshotKind, VolumeTags};
use crate::ec2::{
    GibiBytes, Instance, InstanceState, Market, Price, Snapshot, Speed, Tags, Volume, VolumeState,
    Zone,
};

/// The parts of one drive, as EC2 lists them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    pub(crate) instances: Vec<Instance>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) snapshots: Vec<Snapshot>,
}

/// The time that something was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) from: Timestamp,
    /// When it ended, at the earliest.
    pub(super) least: Timestamp,
    /// When it ended, at the latest, if that is known.
    pub(super) most: Option<Timestamp>,
}

impl Times {
    fn exact(from: Timestamp, to: Timestamp) -> Self {
        Self {
            from,
            least: to,
            most: Some(to),
        }
    }
}

/// The type, the market and the zone of an instance.
pub(super) type Pool = (String, Market, Zone);

/// An instance that has run for a drive, or runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ran {
    pub(super) pool: Pool,
    /// The price at its launch, if that is recorded.
    pub(super) price: Option<Price>,
    pub(super) times: Times,
    pub(super) has_public: bool,
    /// Whether its root disk is not listed any more.
    pub(super) has_root: bool,
}

/// A disk that a drive has had, or has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Disk {
    pub(super) size: GibiBytes,
    pub(super) speed: Speed,
    pub(super) times: Times,
}

/// All that is known of a drive's instances and disks, and what is not.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    pub(super) ran: Vec<Ran>,
    pub(super) disks: Vec<Disk>,
    pub(super) unknown: Vec<Unknown>,
}

/// The records of one instance.
#[derive(Debug)]
struct Session {
    pool: Pool,
    price: Option<Price>,
    generations: BTreeSet<u64>,
    from: Timestamp,
    /// The last checkpoint.
    checkpoint: Option<Timestamp>,
    /// The first other snapshot, and whether the host was there and had closed the drive.
    save: Option<(Timestamp, bool)>,
    /// Whether a volume has the record, too.
    has_volume: bool,
    /// When EC2 says that it ended.
    ended: Option<Timestamp>,
}

impl Session {
    /// The time of its instance, as far as it is recorded.
    fn times(&self, now: Timestamp) -> Times {
        let known = match self.save {
            Some((taken, true)) => Some(taken),
            _ => self.ended,
        };
        match known {
            Some(end) => Times::exact(self.from, end),
            None => Times {
                from: self.from,
                least: self.checkpoint.unwrap_or(self.from),
                most: match self.save {
                    Some((taken, _)) => Some(taken),
                    None => self.has_volume.then_some(now),
                },
            },
        }
    }
}

/// Instances by their launch, in seconds since 1970, and pool.
type Sessions = BTreeMap<(i64, Pool), Session>;

impl Parts {
    /// The parts of each drive of which anything is still there, by its name. Those parts that are over are among
    /// them: EC2 says for an hour when an instance ended.
    pub(crate) fn by_drive(
        instances: Vec<Instance>,
        volumes: Vec<Volume>,
        snapshots: Vec<Snapshot>,
    ) -> BTreeMap<String, Self> {
        let name = |tags: &Tags| tags.get(tags::DRIVE).cloned().unwrap_or_default();
        let mut drives = BTreeMap::<String, Self>::new();
        for instance in instances {
            let drive = drives.entry(name(&instance.tags)).or_default();
            drive.instances.push(instance);
        }
        for volume in volumes {
            let drive = drives.entry(name(&volume.tags)).or_default();
            drive.volumes.push(volume);
        }
        for snapshot in snapshots {
            let drive = drives.entry(name(&snapshot.tags)).or_default();
            drive.snapshots.push(snapshot);
        }
        drives.retain(|_, parts| {
            parts.instances.iter().any(|it| !it.state.is_over())
                || parts.volumes.iter().any(exists)
                || !parts.snapshots.is_empty()
        });
        drives
    }

    /// The history, as far as it reaches beyond `start`; it is `now`.
    pub(super) fn history(&self, start: Timestamp, now: Timestamp) -> History {
        let mut reading = Reading {
            start,
            now,
            ..Reading::default()
        };
        for snapshot in &self.snapshots {
            reading.snapshot(snapshot);
        }
        let volumes = self.volumes.iter().filter(|it| exists(it));
        for volume in volumes.clone() {
            reading.volume(volume);
        }
        for instance in &self.instances {
            reading.instance(instance);
        }
        let listed: BTreeSet<&str> = volumes.map(|it| it.id.as_str()).collect();
        reading.disks.retain(|id, _| !listed.contains(id.as_str()));
        reading.finish()
    }
}

fn exists(volume: &Volume) -> bool {
    !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted)
}

fn speed(tags: &Tags) -> Speed {
    // A speed that cannot be parsed was not bought by xdrive.
    Settings::read(tags).speed().unwrap_or_default()
}

/// The history, while it is read.
#[derive(Default)]
struct Reading {
    start: Timestamp,
    now: Timestamp,
    history: History,
    sessions: Sessions,
    /// The disks behind snapshots, by their ids.
    disks: BTreeMap<String, Disk>,
    /// The generations that there is anything of, and a time that the ones before had ended by.
    generations: BTreeMap<u64, Timestamp>,
    /// Generations with a record.
    recorded: BTreeSet<u64>,
    /// Generations with a snapshot or volume that has none.
    unrecorded: BTreeSet<u64>,
    /// The generation of the copy that the drive began with: up to it they are another drive's.
    began: u64,
    unreadable: Vec<String>,
}

impl Reading {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let (tags, taken) = (&snapshot.tags, snapshot.started);
        let Ok(own) = tags::read_snapshot(tags) else {
            if taken > self.start {
                self.unreadable.push(snapshot.id.to_string());
            }
            return;
        };
        if tags::is_copy(tags) {
            self.began = self.began.max(own.generation.0);
            return;
        }
        let Some(session) = self.session(own.generation.0, tags, taken) else {
            return;
        };
        if own.kind == SnapshotKind::Checkpoint {
            session.checkpoint = session.checkpoint.max(Some(taken));
        } else if session.save.is_none_or(|(first, _)| taken < first) {
            session.save = Some((taken, own.kind == SnapshotKind::Clean));
        }
        let from = session.from;
        let most = (own.kind != SnapshotKind::Checkpoint).then_some(taken);
        let times = Times {
            from,
            least: taken,
            most,
        };
        let disk = Disk {
            size: snapshot.size,
            speed: speed(tags),
            times,
        };
        let id = snapshot.volume.as_ref();
        let id = id.map_or_else(|| snapshot.id.to_string(), ToString::to_string);
        // A volume may have had several sessions, one after the other.
        let known = &mut self.disks.entry(id).or_insert(disk).times;
        known.from = known.from.min(from);
        known.least = known.least.max(taken);
        known.most = known.most.max(most);
    }

    fn volume(&mut self, volume: &Volume) {
        self.history.disks.push(Disk {
            size: volume.size,
            speed: speed(&volume.tags),
            times: Times::exact(volume.created, self.now),
        });
        match tags::read_volume(&volume.tags) {
            Ok(VolumeTags::Drive {
                generation, base, ..
            }) if generation > base => {
                if let Some(session) = self.session(generation.0, &volume.tags, self.now) {
                    session.has_volume = true;
                }
            }
            Ok(_) => {}
            Err(_) => self.unreadable.push(volume.id.to_string()),
        }
    }

    /// The session in the record of `generation`, by the `tags` of what was made at `made`.
    fn session(&mut self, generation: u64, tags: &Tags, made: Timestamp) -> Option<&mut Session> {
        let record = Record::read(tags);
        let known = record.pool().zip(record.since.filter(|from| *from <= made));
        let by = known.as_ref().map_or(made, |(_, from)| *from);
        let earliest = self.generations.entry(generation).or_insert(by);
        *earliest = by.min(*earliest);
        let Some((pool, from)) = known else {
            if made > self.start {
                self.unrecorded.insert(generation);
            }
            return None;
        };
        self.recorded.insert(generation);
        let key = (from.as_second(), pool.clone());
        let session = self.sessions.entry(key).or_insert_with(|| Session {
            pool,
            price: record.price,
            generations: BTreeSet::new(),
            from,
            checkpoint: None,
            save: None,
            has_volume: false,
            ended: None,
        });
        session.generations.insert(generation);
        Some(session)
    }

    fn instance(&mut self, instance: &Instance) {
        let Instance {
            state, launched, ..
        } = *instance;
        let pool = (
            instance.instance_type.clone(),
            instance.market,
            instance.zone.clone(),
        );
        let key = (launched.as_second(), pool.clone());
        if state.is_over() {
            // Without a record nothing of it lasts longer than EC2 lists it: an hour.
            if let Some(session) = self.sessions.get_mut(&key) {
                session.ended = instance.ended;
            }
            return;
        }
        let recorded = self.sessions.remove(&key);
        let is_off = matches!(state, InstanceState::Stopping | InstanceState::Stopped);
        let times = match instance.ended.filter(|_| is_off) {
            Some(ended) => Times::exact(launched, ended),
            None => Times::exact(launched, self.now),
        };
        self.history.ran.push(Ran {
            pool,
            price: recorded.and_then(|it| it.price),
            times,
            has_public: instance.has_public,
            has_root: false,
        });
    }

    fn finish(mut self) -> History {
        let (mut late, mut endless) = (BTreeSet::new(), BTreeSet::new());
        for session in std::mem::take(&mut self.sessions).into_values() {
            let times = session.times(self.now);
            let is_past = times.most.is_some_and(|most| most <= self.start);
            match times.most {
                _ if is_past => continue,
                None => endless.extend(&session.generations),
                Some(most) if most > times.least => late.extend(&session.generations),
                Some(_) => {}
            }
            self.history.ran.push(Ran {
                pool: session.pool,
                price: session.price,
                times,
                // Not recorded: EC2 gives one where nothing else is set.
                has_public: true,
                has_root: true,
            });
        }
        self.history.disks.extend(self.disks.into_values());
        let mut deleted = Generations::default();
        let mut next = self.began.saturating_add(1);
        for (generation, by) in self.generations.range(next..) {
            if *generation > next && *by > self.start {
                deleted.push(next, generation - 1);
            }
            next = generation.saturating_add(1);
        }
        let unrecorded = self.unrecorded.difference(&self.recorded).copied();
        let gaps = [
            Unknown::Deleted(deleted),
            Unknown::Unrecorded(unrecorded.collect()),
            Unknown::Endless(endless.into_iter().collect()),
            Unknown::Late(late.into_iter().collect()),
        ];
        let has_some = |gap: &Unknown| gap.generations().is_some_and(|it| !it.ranges().is_empty());
        let unknown = &mut self.history.unknown;
        unknown.extend(gaps.into_iter().filter(has_some));
        if !self.unreadable.is_empty() {
            unknown.push(Unknown::Unreadable(self.unreadable));
        }
        self.history
    }
}
