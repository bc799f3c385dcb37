//! The only place that terminates and deletes: a proof in hand, and the thing read again by id.

use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::plan::Step;
use super::super::proof::{Failed, Quiet, Spent, Superseded};
use super::{Reconciler, RunError};
use crate::ec2::{InstanceState, VolumeState};

impl<H: Hosts> Reconciler<H> {
    /// Carries out a step that destroys. What is not there any more is done; what changed since
    /// the proof was made is left alone and looked at again.
    pub(super) async fn destroy(&mut self, step: &Step, seen: &Observed) -> Result<(), RunError> {
        match step {
            Step::Terminate(quiet) => self.terminate(quiet, seen).await,
            Step::DeleteVolume(spent) => self.delete_volume(spent, seen).await,
            Step::DeleteSnapshot(failed) => self.delete_snapshot(failed).await,
            Step::Thin(superseded) => {
                // What nobody needs is no reason to fail: it is left to a later run.
                if self.thin_out(superseded).await.is_err() {
                    let id = superseded.snapshot().clone();
                    self.memory.me.spared.insert(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn terminate(&mut self, quiet: &Quiet, seen: &Observed) -> Result<(), RunError> {
        let id = quiet.instance();
        if let Some(instance) = self.ec2.instance(id).await? {
            let ended = matches!(
                instance.state,
                InstanceState::ShuttingDown | InstanceState::Terminated
            );
            if !ended {
                if !quiet.holds(self.clock.boot(), &instance) {
                    return Err(changed(id));
                }
                self.ec2.terminate(id).await?;
            }
            self.hosts.release(&instance);
        } else if !seen.instance(id).is_some_and(|instance| instance.listed) {
            return Err(changed(id));
        }
        self.memory.gone.insert(id.to_string());
        Ok(())
    }

    async fn delete_volume(&mut self, spent: &Spent, seen: &Observed) -> Result<(), RunError> {
        let id = spent.volume();
        let snapshot = match spent.snapshot() {
            Some(snapshot) => self.ec2.snapshot(snapshot).await?,
            None => None,
        };
        if let Some(volume) = self.ec2.volume(id).await? {
            let ended = matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
            if !ended {
                if !spent.holds(self.clock.boot(), &volume, snapshot.as_ref()) {
                    return Err(changed(id));
                }
                self.ec2.delete_volume(id).await?;
            }
        } else if !seen.volume(id).is_some_and(|volume| volume.listed) {
            // A new id is not to be seen at once: it is not gone for that.
            return Err(changed(id));
        }
        self.memory.gone.insert(id.to_string());
        Ok(())
    }

    async fn thin_out(&mut self, superseded: &Superseded) -> Result<(), RunError> {
        let id = superseded.snapshot();
        if let Some(snapshot) = self.ec2.snapshot(id).await? {
            let mut by = Vec::new();
            for other in superseded.by() {
                by.extend(self.ec2.snapshot(other).await?);
            }
            if !superseded.holds(self.clock.boot(), &snapshot, &by) {
                return Err(changed(id));
            }
            self.ec2.delete_snapshot(id).await?;
        }
        self.memory.gone.insert(id.to_string());
        Ok(())
    }

    async fn delete_snapshot(&mut self, failed: &Failed) -> Result<(), RunError> {
        let id = failed.snapshot();
        if let Some(snapshot) = self.ec2.snapshot(id).await? {
            let Some(volume) = self.ec2.volume(failed.volume()).await? else {
                return Err(changed(id));
            };
            if !failed.holds(self.clock.boot(), &snapshot, &volume) {
                return Err(changed(id));
            }
            self.ec2.delete_snapshot(id).await?;
        }
        self.memory.gone.insert(id.to_string());
        Ok(())
    }
}

fn changed(id: &impl std::fmt::Display) -> RunError {
    RunError::Changed(format!("{id} is not as it was when this was decided"))
}
