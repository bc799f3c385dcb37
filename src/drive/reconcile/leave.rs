//! The steps by which a part of a drive leaves its name, but for the deletions: the drive is deleted or
//! renamed, or the part is of a lineage that was not chosen.

use crate::ec2::{Snapshot, Volume, VolumeState};
use crate::ids::{DriveName, SnapshotId, VolumeId};

use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::stuck::{Head, Why};
use super::super::tags::{self, Leaving, VolumeTags};
use super::{Reconciler, RunError};

impl<H: Hosts> Reconciler<H> {
    /// Records what leaves the drive's name: all that was there at this look.
    pub(super) fn take_up(&mut self, seen: &Observed) {
        let all = seen.snapshots.iter().map(|snapshot| snapshot.id.clone());
        self.overlay.me.leaving.extend(all);
    }

    /// Marks a snapshot as one that leaves the drive.
    pub(super) async fn mark(
        &mut self,
        id: &SnapshotId,
        leaving: &Leaving,
    ) -> Result<(), RunError> {
        let mark = leaving.tags(&self.overlay.who);
        self.ec2.tag(id.as_str(), &mark).await?;
        self.overlay.leaving.insert(id.clone(), leaving.clone());
        // What happens from here on is seen by all once lists have it.
        self.overlay.me.announced = Some(self.clock.boot());
        Ok(())
    }

    /// Gives a snapshot to the drive `to`, if it is still marked for that. Before the first one the name
    /// is looked at again: nothing keeps others from connecting to it while the marks are written.
    pub(super) async fn rename(&mut self, id: &SnapshotId, to: &DriveName) -> Result<(), RunError> {
        let read = self.ec2.snapshot(id).await?;
        let is_marked = read.as_ref().is_some_and(|snapshot| {
            Leaving::read(&snapshot.tags) == Some(Leaving::Renamed(to.clone()))
        });
        let gone = &self.overlay.gone;
        let mut leaving = self.overlay.me.leaving.iter();
        let has_begun = leaving.any(|it| gone.contains(it.as_str()));
        if let Some(snapshot) = read.as_ref().filter(|_| is_marked && !has_begun) {
            self.demand_name(to, snapshot).await?;
        }
        // One that has gone already needs no new name.
        if !is_marked && read.is_some() {
            let problem = format!(
                "{} is not to be renamed any more",
                id.drive_label(&self.drive)
            );
            return Err(RunError::Changed(problem));
        }
        if is_marked {
            self.ec2.tag(id.as_str(), &tags::renamed(to)).await?;
        }
        self.overlay.gone.insert(id.to_string());
        Ok(())
    }

    /// Fails with [`Why::NameTaken`] if another drive has the name `to`. Free is one that nothing has;
    /// and one to which this drive's newest snapshots have come already, which may be in use there. Those
    /// are marked, of the same file system, and no older than `next`, the newest that is still here.
    pub async fn demand_name(&self, to: &DriveName, next: &Snapshot) -> Result<(), RunError> {
        let taken = |part: String| {
            let to = to.clone();
            Err(RunError::Stuck(Why::NameTaken { to, part }))
        };
        // In the order in which data moves.
        let instances = self.ec2.instances(to).await?;
        let volumes = self.ec2.volumes(to).await?;
        let snapshots = self.ec2.snapshots(to).await?;
        // Lists may show what has moved under both names.
        let others: Vec<&Snapshot> = snapshots.iter().filter(|it| it.id != next.id).collect();
        let is_marked = |it: &Snapshot| {
            let mark = it.tags.get(tags::RENAMING);
            mark.is_some_and(|name| name == to.as_str())
        };
        let has_come = others.iter().any(|it| is_marked(it));
        let is_other = |it: &&&Snapshot| !has_come || !may_have_come(it, next);
        if let Some(other) = others.iter().find(is_other) {
            return taken(other.id.short_label());
        }
        if has_come {
            return Ok(());
        }
        if let Some(volume) = volumes.iter().find(|it| is_left(it)) {
            return taken(volume.id.short_label());
        }
        match instances.iter().find(|it| !it.state.is_over()) {
            Some(instance) => taken(instance.id.short_label()),
            None => Ok(()),
        }
    }

    /// Keeps a lineage that was not chosen under the first free fork's name, one for each lineage;
    /// returns that name.
    pub(super) async fn fork(
        &mut self,
        head: &Head,
        lineage: Option<&VolumeId>,
    ) -> Result<DriveName, RunError> {
        let lineage = lineage.cloned();
        let name = if let Some(name) = self.overlay.forks.get(&lineage) {
            name.clone()
        } else {
            let mut number = 1;
            loop {
                let name = self.drive.fork(number);
                let is_taken = self.overlay.forks.values().any(|taken| *taken == name)
                    || !self.ec2.volumes(&name).await?.is_empty()
                    || !self.ec2.snapshots(&name).await?.is_empty();
                if !is_taken {
                    break name;
                }
                number += 1;
            }
        };
        self.overlay.forks.insert(lineage, name.clone());
        let mut tags = tags::renamed(&name);
        if let Head::Snapshot(_) = head {
            // It may have come to this drive by a rename.
            tags.extend(Leaving::none());
        }
        self.ec2.tag(&head.to_string(), &tags).await?;
        self.overlay.gone.insert(head.to_string());
        Ok(name)
    }
}

/// Whether the volume is part of a drive, and there.
#[must_use]
pub fn is_left(volume: &Volume) -> bool {
    !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted)
        && !matches!(tags::read_volume(&volume.tags), Ok(VolumeTags::Root))
}

/// Whether `there`, a snapshot under the new name, may be of the drive of which `next` is the newest
/// that is left: the newest go first, and what is saved there later is newer still.
fn may_have_come(there: &Snapshot, next: &Snapshot) -> bool {
    let read = |it: &Snapshot| tags::read_snapshot(&it.tags);
    let (Ok(there), Ok(next)) = (read(there), read(next)) else {
        return false;
    };
    let is_same = there.uuid.is_none() || next.uuid.is_none() || there.uuid == next.uuid;
    is_same && there.generation >= next.generation
}
