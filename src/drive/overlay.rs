//! The read-your-writes overlay: what this process knows for certain, laid over lists that may be
//! stale.
//!
//! It only saves time: a process without it reaches the same end, later. It moves things forwards
//! in time only: a raised generation is never shown lower, a terminated instance never as running,
//! and what was made is shown until the lists have it.
//!
//! `reconcile` fills it from the answers to its calls. It is public because the model checker lays
//! the same overlay over its own lists.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::clock::BootTime;
use crate::ec2::{
    Attachment, AttachmentState, Instance, InstanceState, LaunchOrder, Market, Snapshot,
    StatusChecks, Volume, VolumeOrder, VolumeState, Zone,
};
use crate::ids::{DriveName, Generation, InstanceId, SessionId, SnapshotId, Uuid, VolumeId};

use super::hosts::{Contact, HostView};
use super::observed::{
    Me, Observed, SeenAttachment, SeenChecks, SeenInstance, SeenLease, SeenSnapshot, SeenThrowaway,
    SeenVolume,
};
use super::source::Source;
use super::tags;
use super::tags::{Identity, Leaving, VolumeTags};
use super::timing::Timing;

/// The watched state of an instance that does not answer, or cannot be asked.
const SILENT: &str = "silent";

/// The answers of EC2 and the hosts in one sweep.
#[derive(Debug)]
pub struct Sweep {
    /// When it began.
    pub began: BootTime,
    /// The sweep's begin on the wall clock.
    pub wall: Timestamp,
    /// When its volumes began to be read, and then the snapshots.
    pub stored: BootTime,
    /// The instances, and what the host of each answered.
    pub instances: Vec<(Instance, Contact)>,
    /// The volumes, also root disks.
    pub volumes: Vec<Volume>,
    /// The snapshots.
    pub snapshots: Vec<Snapshot>,
    /// Ids that the lists do not have, but that this process made.
    pub unlisted: BTreeSet<String>,
}

/// EC2's status checks of an instance, as last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// The checks' results; none where this caller may not read them.
    pub checks: Option<StatusChecks>,
    /// Since when this process sees these results.
    pub since: BootTime,
    /// When they were read.
    pub asked: BootTime,
}

/// The facts that this process knows for certain, whatever the lists show.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// The session and its caller.
    pub who: Identity,
    /// The facts about this process that `plan` decides by.
    pub me: Me,
    /// When the first sweep began.
    pub first: Option<BootTime>,
    /// Instances that were launched, as EC2 answered them, and when.
    pub instances: BTreeMap<InstanceId, (Instance, BootTime)>,
    /// Volumes that were made, as EC2 answered them, and when.
    pub volumes: BTreeMap<VolumeId, (Volume, BootTime)>,
    /// Snapshots that were made, as EC2 answered them, and when.
    pub snapshots: BTreeMap<SnapshotId, (Snapshot, BootTime)>,
    /// Ids that were terminated, deleted or given to a fork.
    pub gone: BTreeSet<String>,
    /// Snapshots that were marked, and why they leave the drive.
    pub leaving: BTreeMap<SnapshotId, Leaving>,
    /// Ids that were claimed.
    pub claimed: BTreeSet<String>,
    /// The highest generation of each volume that was raised or read back.
    pub generations: BTreeMap<VolumeId, Generation>,
    /// Volumes whose format is recorded.
    pub formatted: BTreeSet<VolumeId>,
    /// Volumes whose file system is recorded, and as which.
    pub uuids: BTreeMap<VolumeId, Uuid>,
    /// Volumes whose `DeleteOnTermination` was set to false.
    pub kept: BTreeSet<VolumeId>,
    /// Attach and detach calls that the lists may not show yet: the instance, and when.
    pub moves: BTreeMap<VolumeId, (AttachmentState, InstanceId, BootTime)>,
    /// The launch order that was sent and never answered. Sent again with its client token, it
    /// makes nothing twice.
    pub launch: Option<LaunchOrder>,
    /// The volume order that was sent and never answered, with its zone and source.
    pub order: Option<(Zone, Source, VolumeOrder)>,
    /// The fork that keeps each lineage that was not chosen.
    pub forks: BTreeMap<Option<VolumeId>, DriveName>,
    /// When this process first saw that EC2 had given an instance notice.
    pub noticed: BTreeMap<InstanceId, BootTime>,
    /// Whether nobody waits any more until EC2 takes an instance: it is terminated, and billed.
    pub terminates_noticed: bool,
    /// EC2's status checks of running instances that do not answer.
    pub checks: BTreeMap<InstanceId, Checked>,
    /// The state in which each thing was last seen, and since when.
    pub watched: BTreeMap<String, (String, BootTime)>,
}

impl Overlay {
    /// Whether this process has made, claimed and ordered nothing.
    #[must_use]
    pub fn has_made_nothing(&self) -> bool {
        self.instances.is_empty()
            && self.volumes.is_empty()
            && self.snapshots.is_empty()
            && self.claimed.is_empty()
            && self.launch.is_none()
            && self.order.is_none()
    }

    /// An empty overlay.
    #[must_use]
    pub fn new(who: Identity) -> Self {
        let me = Me {
            session: who.session.clone(),
            announced: None,
            unsure: None,
            launches: 0,
            raised: None,
            attached: None,
            closed: None,
            closes: BTreeMap::new(),
            unmounted: None,
            reported: None,
            verdicts: BTreeMap::new(),
            leaving: BTreeSet::new(),
            not_pruned: BTreeSet::new(),
            refused: None,
            rejected: Vec::new(),
            attempts: Vec::new(),
            hung: None,
            failed: BTreeSet::new(),
        };
        Self {
            who,
            me,
            first: None,
            instances: BTreeMap::new(),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            gone: BTreeSet::new(),
            leaving: BTreeMap::new(),
            claimed: BTreeSet::new(),
            generations: BTreeMap::new(),
            formatted: BTreeSet::new(),
            uuids: BTreeMap::new(),
            kept: BTreeSet::new(),
            moves: BTreeMap::new(),
            launch: None,
            order: None,
            forks: BTreeMap::new(),
            noticed: BTreeMap::new(),
            terminates_noticed: false,
            checks: BTreeMap::new(),
            watched: BTreeMap::new(),
        }
    }

    /// The session's id.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.who.session
    }

    /// Parses a sweep and lays the overlay over it.
    pub fn observe(&mut self, sweep: Sweep, timing: &Timing) -> Observed {
        let Sweep {
            began,
            wall,
            stored,
            instances,
            volumes,
            snapshots,
            unlisted,
        } = sweep;
        let first = *self.first.get_or_insert(began);
        // Older moves are in the lists.
        self.moves
            .retain(|_, (_, _, at)| began < *at + timing.settle);
        let mut seen = Observed {
            me: self.me.clone(),
            first,
            began,
            instances: Vec::new(),
            volumes: Vec::new(),
            throwaways: Vec::new(),
            snapshots: Vec::new(),
            unreadable: Vec::new(),
        };
        for snapshot in snapshots {
            if !self.gone.contains(snapshot.id.as_str()) {
                match self.snapshot(&snapshot, stored, timing) {
                    Ok(read) => seen.snapshots.push(read),
                    Err(problem) => seen.unreadable.push((snapshot.id.to_string(), problem)),
                }
            }
        }
        for volume in volumes {
            let listed = !unlisted.contains(volume.id.as_str());
            match self.volume(&volume, listed, stored, &seen.snapshots) {
                Ok(Some(read)) if tags::thrown_away_by(&volume.tags).is_some() => {
                    seen.throwaways.push(SeenThrowaway { volume: read });
                }
                Ok(Some(read)) => seen.volumes.push(read),
                Ok(None) => {}
                Err(problem) => seen.unreadable.push((volume.id.to_string(), problem)),
            }
        }
        for (instance, contact) in instances {
            let listed = !unlisted.contains(instance.id.as_str());
            let lease = tags::until(&instance.tags).map(|until| SeenLease {
                until,
                off_by: began.on_this_clock(wall, until) + timing.lease_margin,
            });
            let spared = self.spared(&instance, &contact, timing, began);
            let read = self.instance(instance, contact, listed, began);
            let read = SeenInstance {
                lease,
                spared,
                ..read
            };
            seen.instances.push(read);
        }
        seen.me.failed.clone_from(&self.me.failed);
        seen
    }

    fn instance(
        &mut self,
        instance: Instance,
        contact: Contact,
        listed: bool,
        now: BootTime,
    ) -> SeenInstance {
        let ended = self.gone.contains(instance.id.as_str());
        let state = if ended && instance.state.is_live() {
            InstanceState::ShuttingDown
        } else {
            instance.state
        };
        // Not asked and not answering are one state: its time is counted from the first of them.
        let answer = match &contact {
            Contact::NotAsked | Contact::Unreachable => SILENT.to_owned(),
            Contact::KeyRefused => "key refused".to_owned(),
            Contact::Reached(view) => format!("{view:?}"),
        };
        let since = self.since(instance.id.as_str(), format!("{state:?} {answer}"), now);
        let made = self.instances.get(&instance.id);
        let checks = self.checks.get(&instance.id).and_then(|known| {
            let checks = known.checks?;
            let since = known.since;
            Some(SeenChecks { checks, since })
        });
        let session = if self.claimed.contains(instance.id.as_str()) {
            self.who.session.clone()
        } else {
            tags::session(&instance.tags)
        };
        SeenInstance {
            throwaway: tags::thrown_away_by(&instance.tags),
            state,
            zone: instance.zone,
            launched: instance.launched,
            session,
            owner: tags::owner(&instance.tags).to_owned(),
            listed,
            contact,
            since,
            made: made.map_or(since, |(_, at)| *at),
            checks,
            lease: None,
            spared: None,
            id: instance.id,
        }
    }

    /// Until when an instance is left to EC2: a spot instance that this process launched, and that had its notice so
    /// early that EC2 takes it in its first hour.
    fn spared(
        &mut self,
        instance: &Instance,
        contact: &Contact,
        timing: &Timing,
        now: BootTime,
    ) -> Option<BootTime> {
        if let Contact::Reached(HostView { noticed: true, .. }) = contact {
            self.noticed.entry(instance.id.clone()).or_insert(now);
        }
        // It may not answer any more.
        let noticed = *self.noticed.get(&instance.id)?;
        let (_, made) = self.instances.get(&instance.id)?;
        let is_early = noticed.since(*made) < timing.first_hour;
        let is_spared = is_early && instance.market == Market::Spot && !self.terminates_noticed;
        is_spared.then(|| noticed + timing.taking)
    }

    /// `None` for root disks and for volumes that are gone.
    fn volume(
        &mut self,
        volume: &Volume,
        listed: bool,
        now: BootTime,
        snapshots: &[SeenSnapshot],
    ) -> Result<Option<SeenVolume>, String> {
        if self.gone.contains(volume.id.as_str()) {
            return Ok(None);
        }
        let gone = matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
        let (base, generation, blank, formatted, uuid, session) =
            match tags::read_volume(&volume.tags) {
                Ok(VolumeTags::Root) => return Ok(None),
                Ok(VolumeTags::Drive {
                    base,
                    generation,
                    blank,
                    formatted,
                    uuid,
                    session,
                }) => (base, generation, blank, formatted, uuid, session),
                Ok(VolumeTags::Throwaway {
                    base,
                    uuid,
                    session,
                }) => (base, base, false, true, uuid, session),
                Err(_) if gone => return Ok(None),
                Err(problem) => return Err(problem.to_string()),
            };
        // A session that raised it further claimed it in the same call.
        let known = self.generations.get(&volume.id);
        let is_claimed = self.claimed.contains(volume.id.as_str())
            && known.is_none_or(|known| generation <= *known);
        // Its generation is no lower than that of its snapshots, nor than this process has read.
        let generation = snapshots
            .iter()
            .filter(|snapshot| snapshot.volume.as_ref() == Some(&volume.id))
            .map(|snapshot| snapshot.generation)
            .chain(self.generations.get(&volume.id).copied())
            .fold(generation, Generation::max);
        let attachment = self.attachment(volume);
        let state = match &attachment {
            Some(_) if volume.state == VolumeState::Available => VolumeState::InUse,
            _ => volume.state,
        };
        if state == VolumeState::Error
            && generation == base
            && self.volumes.contains_key(&volume.id)
        {
            self.me.failed.insert(volume.id.clone());
        }
        let watched = format!("{state:?} {generation} {attachment:?}");
        let session = if is_claimed {
            self.who.session.clone()
        } else {
            session
        };
        Ok(Some(SeenVolume {
            id: volume.id.clone(),
            state,
            zone: volume.zone.clone(),
            size: volume.size,
            throughput: tags::Settings::read(&volume.tags)
                .speed()
                .ok()
                .and_then(|speed| speed.throughput),
            created: volume.created,
            snapshot: volume.snapshot.clone(),
            attachment,
            base,
            generation,
            blank,
            formatted: formatted || self.formatted.contains(&volume.id),
            uuid: uuid.or(self.uuids.get(&volume.id).copied()),
            session,
            has_owner: tags::has_owner(&volume.tags),
            listed,
            since: self.since(volume.id.as_str(), watched, now),
        }))
    }

    fn attachment(&self, volume: &Volume) -> Option<SeenAttachment> {
        let listed = volume
            .attachment
            .as_ref()
            .map(|attachment: &Attachment| SeenAttachment {
                instance: attachment.instance.clone(),
                state: attachment.state,
                device: attachment.device.clone(),
                delete_on_termination: attachment.delete_on_termination
                    && !self.kept.contains(&volume.id),
            });
        match (self.moves.get(&volume.id), listed) {
            (Some((state @ AttachmentState::Attaching, instance, _)), None) => {
                Some(SeenAttachment {
                    instance: instance.clone(),
                    state: *state,
                    device: super::observed::DEVICE.to_owned(),
                    delete_on_termination: false,
                })
            }
            (Some((AttachmentState::Detaching, instance, _)), Some(shown))
                if shown.instance == *instance && shown.state == AttachmentState::Attached =>
            {
                Some(SeenAttachment {
                    state: AttachmentState::Detaching,
                    ..shown
                })
            }
            (_, shown) => shown,
        }
    }

    fn snapshot(
        &mut self,
        snapshot: &Snapshot,
        now: BootTime,
        timing: &Timing,
    ) -> Result<SeenSnapshot, String> {
        let read = tags::read_snapshot(&snapshot.tags).map_err(|problem| problem.to_string())?;
        let made = self.snapshots.get(&snapshot.id).map(|(_, at)| *at);
        let first_seen = self.since(&format!("{} at all", snapshot.id), String::new(), now);
        let known = made.map_or(first_seen, |made| made.min(first_seen));
        let watched = format!("{:?}", snapshot.state);
        Ok(SeenSnapshot {
            id: snapshot.id.clone(),
            state: snapshot.state,
            volume: snapshot.volume.clone(),
            size: snapshot.size,
            generation: read.generation,
            kind: read.kind,
            op: read.op,
            uuid: read.uuid,
            has_owner: tags::has_owner(&snapshot.tags),
            number: read.number,
            leaving: self
                .leaving
                .get(&snapshot.id)
                .cloned()
                .or_else(|| Leaving::read(&snapshot.tags)),
            is_forked: tags::is_copy(&snapshot.tags),
            since: self.since(snapshot.id.as_str(), watched, now),
            is_everywhere: now >= known + timing.settle,
        })
    }

    /// Since when this process has seen a running instance not answer.
    pub(super) fn silent_since(&self, id: &InstanceId) -> Option<BootTime> {
        let (state, since) = self.watched.get(id.as_str())?;
        let silent = format!("{:?} {SILENT}", InstanceState::Running);
        (*state == silent).then_some(*since)
    }

    /// Since when this process sees the thing in `state`.
    fn since(&mut self, id: &str, state: String, now: BootTime) -> BootTime {
        match self.watched.get(id) {
            Some((known, since)) if *known == state => *since,
            _ => {
                self.watched.insert(id.to_owned(), (state, now));
                now
            }
        }
    }
}
