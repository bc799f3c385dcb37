//! Checkpoints of the drive in use, previews, and the pruning of superseded snapshots.

use crate::ids::{Generation, SnapshotId, VolumeId};

use super::super::event::Event;
use super::super::host_error::HostError;
use super::super::hosts::Hosts;
use super::super::observed::{DEVICE, Observed};
use super::super::plan::{self, Goal, Next, Skipped, Step};
use super::super::proof::PruningGrounds;
use super::{Reconciler, RunError};

/// How many sweeps, after settled lists, wait for a scratch drive to be at rest.
const LOOKS: u32 = 60;

/// The result of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpoint {
    /// The snapshot was begun, and is being copied.
    Taken(SnapshotId),
    /// None was taken, for this reason; the next one may be.
    Skipped(Skipped),
}

impl<H: Hosts> Reconciler<H> {
    /// Takes a checkpoint of the drive that this process, or another client, has mounted: the host syncs what is
    /// unwritten, then a snapshot of kind `checkpoint` is requested. Before that, checkpoints and
    /// failures that are superseded are deleted; the newest two of the generation stay.
    ///
    /// To be called while the drive is in use, one call at a time. It emits [`Event::Checkpoint`]
    /// and [`Event::CheckpointSkipped`] only. An error concerns this checkpoint alone: the session
    /// goes on, and the next one is tried all the same.
    pub async fn checkpoint(&mut self) -> Result<Checkpoint, RunError> {
        // On the heap: the futures of the SDK's calls are large.
        Box::pin(self.take_checkpoint()).await
    }

    async fn take_checkpoint(&mut self) -> Result<Checkpoint, RunError> {
        let began = self.clock.boot();
        let seen = self.sweep().await?;
        // First, while the sweep is new: a sync may take long.
        for step in plan::prune(&seen) {
            self.act(&step, &seen).await?;
        }
        let now = self.clock.boot();
        let step = match plan::checkpoint(&seen, now, &self.timing) {
            Ok(step) => step,
            Err(why) => {
                self.emit(Event::CheckpointSkipped(why.clone()));
                return Ok(Checkpoint::Skipped(why));
            }
        };
        self.sync(&step, &seen).await?;
        let made = self.act(&step, &seen).await?.unwrap_or_default();
        let snapshot: SnapshotId = made
            .parse()
            .map_err(|_| RunError::Changed(format!("{made:?} is no snapshot")))?;
        self.emit(Event::Checkpoint {
            snapshot: snapshot.clone(),
            took: self.clock.boot().since(began),
        });
        Ok(Checkpoint::Taken(snapshot))
    }

    async fn sync(&mut self, step: &Step, seen: &Observed) -> Result<(), RunError> {
        let Step::Snapshot { volume, .. } = step else {
            return Ok(());
        };
        let holder = seen.volume(volume).and_then(|volume| volume.holder());
        let host = match holder {
            Some(holder) => self.host(holder)?,
            None => return Err(HostError::Unreachable(format!("{DEVICE} is gone")).into()),
        };
        Ok(self.hosts.sync(&host).await?)
    }

    /// The first steps of a run towards `goal`, on settled lists, and the snapshots that could be
    /// deleted if the newest `keep` final ones stay. Nothing is changed.
    pub async fn preview(
        &mut self,
        goal: &Goal,
        keep: Option<usize>,
    ) -> Result<(Next, Vec<Step>), RunError> {
        loop {
            let seen = Box::pin(self.sweep()).await?;
            if seen.began.since(seen.first) >= self.timing.settle {
                let next = plan::plan(goal, &seen, self.clock.boot(), &self.timing);
                let outdated = keep.map(|keep| plan::outdated(&seen, keep));
                return Ok((next, outdated.unwrap_or_default()));
            }
            tokio::time::sleep(self.timing.poll).await;
        }
    }

    /// The first step of a run towards `goal`, by one sweep; nothing is changed. Stale lists may
    /// lack what is new.
    pub async fn peek(&mut self, goal: &Goal) -> Result<Next, RunError> {
        let seen = Box::pin(self.sweep()).await?;
        Ok(plan::plan(goal, &seen, self.clock.boot(), &self.timing))
    }

    /// Deletes the completed final snapshots of a wholly saved drive but for the newest `keep`, one
    /// at least, or of these that of the generation `only`; adds those deleted to `gone`, as long as
    /// `goes_on` says so. To be called after a run that ended with nothing left to save.
    pub async fn prune(
        &mut self,
        (keep, only): (usize, Option<Generation>),
        gone: &mut Vec<SnapshotId>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), RunError> {
        // One sweep for each: a drive that was at rest may be in use by now.
        while goes_on() {
            let seen = Box::pin(self.sweep()).await?;
            let outdated = plan::outdated(&seen, keep);
            let is_meant =
                |grounds: &PruningGrounds| only.is_none_or(|only| grounds.generation() == only);
            let grounds = outdated.iter().find_map(|step| match step {
                Step::Prune(grounds) if is_meant(grounds) => Some(grounds),
                _ => None,
            });
            let Some(grounds) = grounds else {
                return Ok(());
            };
            Box::pin(self.act(&Step::Prune(grounds.clone()), &seen)).await?;
            if self.overlay.gone.contains(grounds.snapshot().as_str()) {
                gone.push(grounds.snapshot().clone());
            }
        }
        Ok(())
    }

    /// Deletes all snapshots of a wholly saved scratch drive, those that lists show only later
    /// included. To be called after a run that ended in [`super::Outcome::Saved`], or with nothing
    /// made.
    pub async fn delete_scratch(&mut self) -> Result<(), RunError> {
        let mut looks = 0;
        loop {
            let seen = Box::pin(self.sweep()).await?;
            let mut snapshots = seen.snapshots.iter();
            let proof = snapshots
                .find(|snapshot| !seen.me.not_pruned.contains(&snapshot.id))
                .map(|snapshot| PruningGrounds::prove_scratch(&seen, snapshot));
            if let Some(Some(proof)) = proof {
                Box::pin(self.act(&Step::Prune(proof), &seen)).await?;
                continue;
            }
            // Lists lag: they show deleted snapshots for a while, and new ones late.
            let is_settled = seen.began.since(seen.first) >= self.timing.settle;
            looks += u32::from(is_settled);
            if is_settled && (proof.is_none() || looks > LOOKS) {
                return Ok(());
            }
            tokio::time::sleep(self.timing.poll).await;
        }
    }
}

/// The number of the volume's last checkpoint of that generation; 0 if there is none.
pub(super) fn last_checkpoint(seen: &Observed, volume: &VolumeId, generation: Generation) -> u32 {
    seen.snapshots_of(volume)
        .filter(|snapshot| snapshot.generation == generation)
        .map(|snapshot| snapshot.number)
        .max()
        .unwrap_or_default()
}
