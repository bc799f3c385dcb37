//! The steps that terminate and delete: everything that their grounds rest on is re-read by id, all
//! at once, so that the first answer is not old when the last one comes. If the grounds still hold,
//! the call follows.

use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::plan::Step;
use super::super::proof::{
    DeletionGrounds, FailedSnapshot, PruningGrounds, Reread, TerminationGrounds,
};
use super::{Reconciler, RunError};
use crate::clock::BootTime;
use crate::ec2::VolumeState;

impl<H: Hosts> Reconciler<H> {
    /// Carries out a step that destroys. If the resource is gone, the step is done. If it changed
    /// since the sweep, it is left alone, and the next sweep decides.
    pub(super) async fn destroy(&mut self, step: &Step, seen: &Observed) -> Result<(), RunError> {
        match step {
            Step::Terminate(grounds) => self.terminate(grounds, seen).await,
            Step::DeleteVolume(grounds) => self.delete_volume(grounds, seen).await,
            Step::DeleteSnapshot(failed) => self.delete_snapshot(failed).await,
            Step::Erase(grounds) => {
                self.take_up(seen);
                self.prune_one(grounds).await
            }
            Step::Prune(grounds) => {
                // A superseded snapshot is no reason to fail: a later run deletes it.
                if self.prune_one(grounds).await.is_err() {
                    let id = grounds.snapshot().clone();
                    self.overlay.me.not_pruned.insert(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn terminate(
        &mut self,
        grounds: &TerminationGrounds,
        seen: &Observed,
    ) -> Result<(), RunError> {
        let id = grounds.instance();
        let asked = self.clock.boot();
        let host = if grounds.must_ask_host(asked) {
            Some(self.host(id)?)
        } else {
            None
        };
        let hosts = &mut self.hosts;
        let ask = async {
            match &host {
                Some(host) => Some(hosts.contact(host).await),
                None => None,
            }
        };
        let check = async {
            if grounds.must_ask_check() {
                self.ec2.impaired_since(id).await
            } else {
                Ok(None)
            }
        };
        let (read, contact, impaired) = tokio::join!(self.ec2.instance(id), ask, check);
        if let Some(instance) = read? {
            if !instance.state.is_over() {
                let wall = self.clock.now();
                let failing = |since| wall.duration_since(since).try_into().unwrap_or_default();
                let reread = Reread {
                    failing: impaired?.map(failing),
                    ..self.since(asked)
                };
                if grounds.must_ask_check() && reread.failing.is_none() {
                    // It has passed again: what follows for a host that may answer soon.
                    self.overlay.me.hung = None;
                }
                let proof = grounds.confirm(reread, &instance, contact.as_ref());
                let proof = proof.ok_or_else(|| changed(&id.drive_label(&self.drive)))?;
                self.ec2.terminate(proof).await?;
            }
            self.hosts.release(&instance);
        } else if !seen.instance(id).is_some_and(|instance| instance.listed) {
            return Err(changed(&id.drive_label(&self.drive)));
        }
        self.overlay.gone.insert(id.to_string());
        Ok(())
    }

    async fn delete_volume(
        &mut self,
        grounds: &DeletionGrounds,
        seen: &Observed,
    ) -> Result<(), RunError> {
        let id = grounds.volume();
        let asked = self.clock.boot();
        let ground = async {
            match grounds.snapshot() {
                Some(snapshot) => self.ec2.snapshot(snapshot).await,
                None => Ok(None),
            }
        };
        let (snapshot, volume) = tokio::try_join!(ground, self.ec2.volume(id))?;
        if let Some(volume) = volume {
            let ended = matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
            if !ended {
                let proof = grounds.confirm(self.since(asked), &volume, snapshot.as_ref());
                let proof = proof.ok_or_else(|| changed(&id.drive_label(&self.drive)))?;
                self.ec2.delete_volume(proof).await?;
            }
        } else if !seen.lists_volume(id) {
            // EC2 may not know a new id yet: that does not mean it is gone.
            return Err(changed(&id.drive_label(&self.drive)));
        }
        self.overlay.gone.insert(id.to_string());
        Ok(())
    }

    async fn prune_one(&mut self, grounds: &PruningGrounds) -> Result<(), RunError> {
        let id = grounds.snapshot();
        let asked = self.clock.boot();
        let by = self.ec2.snapshots_by_id(grounds.by());
        let (snapshot, by) = tokio::try_join!(self.ec2.snapshot(id), by)?;
        if let Some(snapshot) = snapshot {
            let proof = grounds.confirm(self.since(asked), &snapshot, &by);
            let proof = proof.ok_or_else(|| changed(&id.drive_label(&self.drive)))?;
            self.ec2.delete_snapshot(proof).await?;
        }
        self.overlay.gone.insert(id.to_string());
        Ok(())
    }

    async fn delete_snapshot(&mut self, failed: &FailedSnapshot) -> Result<(), RunError> {
        let id = failed.snapshot();
        let asked = self.clock.boot();
        let volume = self.ec2.volume(failed.volume());
        let (snapshot, volume) = tokio::try_join!(self.ec2.snapshot(id), volume)?;
        if let Some(snapshot) = snapshot {
            let Some(volume) = volume else {
                return Err(changed(&id.drive_label(&self.drive)));
            };
            let proof = failed.confirm(self.since(asked), &snapshot, &volume);
            let proof = proof.ok_or_else(|| changed(&id.drive_label(&self.drive)))?;
            self.ec2.delete_snapshot(proof).await?;
        }
        self.overlay.gone.insert(id.to_string());
        Ok(())
    }

    /// The re-read that was sent at `asked`, for a call that follows now.
    fn since(&self, asked: BootTime) -> Reread {
        Reread {
            asked,
            now: self.clock.boot(),
            failing: None,
        }
    }
}

/// The error of a `resource` that has changed since the sweep.
fn changed(resource: &str) -> RunError {
    RunError::Changed(format!("{resource} is not as it was when this was decided"))
}
