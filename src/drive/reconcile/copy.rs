//! The step of a drive that begins as a copy: of another one's snapshot, or of what is no drive's.

use std::time::Duration;

use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::source::{CopyOrder, CopySource};
use super::super::tags;
use super::act::may_have_happened;
use super::{Reconciler, RunError};

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
        let copied = match &order.source {
            CopySource::Snapshot(source) => {
                self.ec2.copy_snapshot(&order.region, source, &tags).await
            }
            CopySource::Volume(source) => {
                let made = self.ec2.create_snapshot(source, &tags).await;
                made.map(|snapshot| snapshot.id)
            }
        };
        match copied {
            Ok(id) => {
                self.overlay.me.announced = Some(self.clock.boot());
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
