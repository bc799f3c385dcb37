//! The steps of a drive that is deleted or renamed, but for the deletions.

use crate::ids::{DriveName, SnapshotId};

use super::super::hosts::Hosts;
use super::super::tags::{self, Leaving};
use super::{Reconciler, RunError};

impl<H: Hosts> Reconciler<H> {
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
}
