//! The facts about a drive, from the lists of its parts.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::lookup::Listing;
use crate::drive::provenance::{Foreign, Provenance};
use crate::drive::reconcile::is_left;
use crate::drive::stuck::Head;
use crate::drive::tags::{self, Settings, SnapshotTags, VolumeTags};
use crate::ec2::{GibiBytes, Instance, Snapshot, SnapshotState, Tags, Volume};
use crate::ids::{DriveName, Generation};

/// The facts about a drive before the loop begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct DriveFacts {
    /// The drive's own settings: those of its newest part, or of the one that `--from` chose.
    pub(crate) settings: Settings,
    /// The size of the largest of its volumes and snapshots; none if it has neither, and is new.
    pub(crate) largest: Option<GibiBytes>,
    /// The drive's live instance. Instances of `--discard` sessions do not count, but for a worker's.
    pub(crate) host: Option<Instance>,
    /// The instances that EC2 lists, live or not: the one that was launched last is the first.
    hosts: Vec<Instance>,
    /// The drive's volumes, root disks among them.
    pub(crate) volumes: Vec<Volume>,
    /// The drive's snapshots.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Backups of the drive that somebody else made.
    pub(crate) backups: Vec<Snapshot>,
}

impl DriveFacts {
    /// The facts that a listing shows; `from` is the part that the user chose.
    pub(crate) fn read(listing: Listing, from: Option<&Head>) -> Self {
        let newest_saved = newest(&[], &listing.snapshots);
        let is_worker = newest_saved.is_some_and(|of| tags::worker_of(of).is_some());
        let counts = |live: &&Instance| is_worker || !is_thrown_away(live);
        let live = live(&listing).filter(counts).cloned();
        let Listing {
            instances,
            volumes,
            snapshots,
            backups,
        } = listing;
        let mut hosts = instances;
        hosts.retain(|it| !is_thrown_away(it));
        hosts.sort_by_key(|it| Reverse(it.launched));
        let drives = volumes.iter().filter(|volume| {
            let tags = tags::read_volume(&volume.tags);
            is_left(volume) && matches!(tags, Ok(VolumeTags::Drive { .. }))
        });
        let sizes = drives.map(|volume| volume.size);
        let largest = sizes
            .chain(snapshots.iter().map(|snapshot| snapshot.size))
            .max();
        let head = match from {
            Some(head @ (Head::Volume(_) | Head::Snapshot(_))) => {
                chosen(head, &volumes, &snapshots)
            }
            Some(Head::Empty) | None => newest(&volumes, &snapshots),
        };
        Self {
            settings: head.map(Settings::read).unwrap_or_default(),
            largest,
            host: live,
            hosts,
            volumes,
            snapshots,
            backups,
        }
    }

    /// The instance that was launched last, live or not.
    pub(crate) fn last(&self) -> Option<&Instance> {
        self.hosts.first()
    }

    /// The last one that may have had the drive at `moment` or later. One that another session launched at the
    /// same time was ended by that session before it had the drive, which tells nothing about the drive.
    pub(crate) fn last_since(&self, moment: Timestamp) -> Option<&Instance> {
        // The end has no fractions of a second.
        let second = SignedDuration::from_secs(1);
        let since = moment.saturating_sub(second).unwrap_or(moment);
        let was_there = |it: &&Instance| it.ended.is_none_or(|ended| ended > since);
        self.hosts.iter().find(was_there)
    }

    /// Whether the drive has no part at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.host.is_none() && self.volumes.is_empty() && self.snapshots.is_empty()
    }

    /// The drive that leads this one, if it is a worker of which nothing is saved.
    pub(crate) fn leader(&self) -> Option<DriveName> {
        let (_, newest) = self.newest_readable(None)?;
        tags::worker_of(&newest.tags)
    }

    /// The drive's volumes that are there, without root disks.
    pub(crate) fn volumes_left(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.iter().filter(|it| is_left(it))
    }

    /// The generation and the tags of the drive's newest part.
    pub(crate) fn newest_part(&self) -> Option<(Generation, &Tags)> {
        let of_volumes = self.volumes_left().map(|it| &it.tags);
        let of_snapshots = self.snapshots.iter().map(|it| &it.tags);
        tags::newest(of_volumes.chain(of_snapshots), |tags| tags)
    }

    /// The tags of one of its parts.
    pub(crate) fn tags_of(&self, head: &Head) -> Option<&Tags> {
        chosen(head, &self.volumes, &self.snapshots)
    }

    /// The newest snapshot that can be read: of that generation, or of any.
    pub(crate) fn newest_readable(
        &self,
        generation: Option<Generation>,
    ) -> Option<(SnapshotTags, &Snapshot)> {
        let completed = |it: &&Snapshot| it.state == SnapshotState::Completed;
        let completed = self.snapshots.iter().filter(completed);
        completed
            .filter_map(|it| Some((tags::read_snapshot(&it.tags).ok()?, it)))
            .filter(|(tags, _)| generation.is_none_or(|wanted| tags.generation == wanted))
            .max_by_key(|(tags, _)| (tags.generation, tags.kind, tags.number))
    }

    /// Why this snapshot, the newest, may be none that xdrive made of the one before.
    pub(super) fn doubt(&self, newest: &Snapshot) -> Option<Foreign> {
        // What is of one volume has its file system.
        let others = self
            .snapshots
            .iter()
            .filter(|it| it.volume != newest.volume);
        let others = others.filter_map(|it| Provenance::read(&it.tags));
        Provenance::read(&newest.tags)?.doubt(others)
    }
}

/// The live instance of a listing; that of a session that throws away what it has only if there is no
/// other. Of several it is the one that has the drive, else the last one: the session may have left the ones before,
/// which EC2 takes.
pub(super) fn live(listing: &Listing) -> Option<&Instance> {
    let has_drive = |instance: &Instance| {
        listing.volumes.iter().any(|volume| {
            let attachment = volume.attachment.as_ref();
            let is_there = attachment.is_some_and(|it| it.instance == instance.id);
            is_there && is_left(volume)
        })
    };
    let instances = listing.instances.iter();
    let live = instances.filter(|instance| instance.state.is_live());
    live.max_by_key(|it| (!is_thrown_away(it), has_drive(it), it.launched, &it.id))
}

/// The tags of the newest of these parts.
pub(super) fn newest<'a>(volumes: &'a [Volume], snapshots: &'a [Snapshot]) -> Option<&'a Tags> {
    let of_volumes = volumes.iter().map(|volume| &volume.tags);
    let of_snapshots = snapshots.iter().map(|snapshot| &snapshot.tags);
    let newest = tags::newest(of_volumes.chain(of_snapshots), |tags| tags);
    newest.map(|(_, tags)| tags)
}

/// The tags of the part that the user chose.
fn chosen<'a>(head: &Head, volumes: &'a [Volume], snapshots: &'a [Snapshot]) -> Option<&'a Tags> {
    match head {
        Head::Volume(id) => volumes.iter().find(|it| it.id == *id).map(|it| &it.tags),
        Head::Snapshot(id) => snapshots.iter().find(|it| it.id == *id).map(|it| &it.tags),
        Head::Empty => None,
    }
}

fn is_thrown_away(instance: &Instance) -> bool {
    tags::thrown_away_by(&instance.tags).is_some()
}
