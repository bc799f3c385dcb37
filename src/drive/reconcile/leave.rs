//! The steps by which a part of a drive leaves its name, but for the deletions: the drive is deleted or
//! renamed, or the part is of a lineage that was not chosen.

use crate::ids::{DriveName, SnapshotId, VolumeId};

use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::stuck::Head;
use super::super::tags::{self, Leaving};
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

    /// Gives a snapshot to the drive `to`, if it is still marked for that.
    pub(super) async fn rename(&mut self, id: &SnapshotId, to: &DriveName) -> Result<(), RunError> {
        let read = self.ec2.snapshot(id).await?;
        let is_marked = read.as_ref().is_some_and(|snapshot| {
            Leaving::read(&snapshot.tags) == Some(Leaving::Renamed(to.clone()))
        });
        // One that has gone already needs no new name.
        if !is_marked && read.is_some() {
            let problem = format!("{} is not to be renamed any more", id.of(&self.drive));
            return Err(RunError::Changed(problem));
        }
        if is_marked {
            self.ec2.tag(id.as_str(), &tags::renamed(to)).await?;
        }
        self.overlay.gone.insert(id.to_string());
        Ok(())
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
                    || !self.ec2.volumes(name.as_str()).await?.is_empty()
                    || !self.ec2.snapshots(name.as_str()).await?.is_empty();
                if !is_taken {
                    break name;
                }
                number += 1;
            }
        };
        self.overlay.forks.insert(lineage, name.clone());
        self.ec2
            .tag(&head.to_string(), &tags::renamed(&name))
            .await?;
        self.overlay.gone.insert(head.to_string());
        Ok(name)
    }
}
