//! The step of a drive that begins as a copy: of another one's snapshot, or of what is no drive's.

use std::time::Duration;

use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::source::{CopyOrder, CopySource};
use super::super::tags;
use super::act::may_have_happened;
use super::{Reconciler, RunError};
use crate::ec2::{Snapshot, SnapshotState, Tags};

/// How old a look may be on which a new drive is made of a copy.
const LOOK_LIFE: Duration = Duration::from_secs(5);

impl<H: Hosts> Reconciler<H> {
    /// Copies a snapshot to this drive, or takes the drive's snapshot of a volume. A copy on an old
    /// look could join a drive that somebody made since. What is copied is neither changed nor tagged.
    pub(super) async fn copy(
        &mut self,
        order: &CopyOrder,
        seen: &Observed,
    ) -> Result<String, RunError> {
        if self.clock.boot().since(seen.began) > LOOK_LIFE {
            return Err(RunError::Changed("the look at the drive is old".to_owned()));
        }
        let mut tags = tags::common(&self.drive, &self.overlay.who);
        tags.extend(order.tags.clone());
        tags.extend(self.wanted.settings.own_tags());
        let copied = match &order.source {
            CopySource::Snapshot(source) => {
                let made = self.ec2.copy_snapshot(&order.region, source, &tags).await;
                // EC2 answers with the id alone.
                made.map(|id| Snapshot {
                    id,
                    state: SnapshotState::Pending,
                    volume: None,
                    size: 0,
                    full_size: None,
                    started: self.clock.now(),
                    message: String::new(),
                    tags: Tags::new(),
                })
            }
            CopySource::Volume(source) => self.ec2.create_snapshot(source, &tags).await,
        };
        match copied {
            Ok(mut copy) => {
                let (id, at) = (copy.id.clone(), self.clock.boot());
                self.overlay.me.announced = Some(at);
                if copy.tags.is_empty() {
                    copy.tags = tags;
                }
                // A list that does not show it yet must not have it made once more.
                self.overlay.snapshots.insert(id.clone(), (copy, at));
                Ok(id.to_string())
            }
            Err(error) => {
                if may_have_happened(&error) {
                    self.overlay.me.unsure = Some(self.clock.boot());
                }
                Err(error.into())
            }
        }
    }
}
