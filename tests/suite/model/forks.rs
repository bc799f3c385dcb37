//! The check that the drive has not forked, by its records: the other checks would not notice while
//! the bytes of both lineages exist.

use std::collections::BTreeSet;

use xdrive::drive::tags::SnapshotKind;
use xdrive::ec2::{InstanceState, SnapshotState};

use super::world::{Snapshot, Volume, World};

impl World {
    /// Whether there are two lineages: two of the highest generation, or an older volume with data
    /// that is in no snapshot of it.
    pub(super) fn is_forked(&self) -> bool {
        let used = |volume: &Volume| {
            let is_blank = volume.blank && volume.generation == 1 && !volume.formatted;
            volume.generation > volume.base && !is_blank && volume.thrown.is_none()
        };
        let volumes = || {
            let there = self.volumes.iter();
            let there = there.filter_map(|thing| Some((thing.id, thing.now.as_ref()?)));
            there.filter(|(_, volume)| used(volume))
        };
        let snapshots = || {
            let there = self.snapshots.iter();
            there.filter_map(|thing| thing.now.as_ref())
        };
        // A copy that began the drive is older than all else of its lineage.
        let is_stranger = |root: &Snapshot, other: &Snapshot| {
            root.forked.is_some()
                && other.generation <= root.generation
                && other.forked != root.forked
        };
        let has_strangers = |root: &Snapshot| {
            let is_older = |volume: &Volume| volume.generation <= root.generation;
            snapshots().any(|other| is_stranger(root, other))
                || (root.forked.is_some() && volumes().any(|(_, volume)| is_older(volume)))
        };
        if snapshots().any(has_strangers) {
            return true;
        }
        let generations = volumes().map(|(_, volume)| volume.generation);
        let Some(top) = generations
            .chain(snapshots().map(|made| made.generation))
            .max()
        else {
            return false;
        };
        let mut lines = BTreeSet::new();
        for (id, volume) in volumes() {
            let saves = |made: &Snapshot| {
                made.volume == Some(id)
                    && made.generation == volume.generation
                    && made.kind != SnapshotKind::Checkpoint
                    && made.state != SnapshotState::Error
            };
            if volume.generation == top || !snapshots().any(saves) {
                lines.insert(id);
            }
        }
        // A copy is of its original's lineage.
        let of = snapshots().filter(|made| made.generation == top);
        lines.extend(of.filter_map(|made| made.volume));
        lines.len() > 1
    }

    /// Whether at most one instance is live, and at most one volume exists.
    pub(super) fn is_one(&self) -> bool {
        let live = |state| matches!(state, InstanceState::Pending | InstanceState::Running);
        let instances = self.instances.iter().filter_map(|thing| thing.now.as_ref());
        let volumes = self.volumes.iter().filter(|thing| thing.now.is_some());
        instances.filter(|instance| live(instance.state)).count() <= 1 && volumes.count() <= 1
    }
}
