//! The attachment of a volume that this session throws away, which no generation announces.

use crate::ec2::AttachmentState;
use crate::ids::{InstanceId, VolumeId};

use super::super::hosts::Hosts;
use super::super::observed::DEVICE;
use super::super::tags::{self, VolumeTags};
use super::act::may_have_happened;
use super::{Reconciler, RunError};

impl<H: Hosts> Reconciler<H> {
    /// Attaches a volume if it has, as it is read by id, the tag of this session's throwaway volumes.
    pub(super) async fn attach_throwaway(
        &mut self,
        id: &VolumeId,
        instance: &InstanceId,
    ) -> Result<(), RunError> {
        let volume = self.volume(id).await?;
        let is_own = match tags::read_volume(&volume.tags) {
            Ok(VolumeTags::Throwaway { session, .. }) => session == *self.session(),
            Ok(VolumeTags::Drive { .. } | VolumeTags::Root) | Err(_) => false,
        };
        if !is_own {
            let volume = id.drive_label(&self.drive);
            let problem = format!("{volume} is not made to be thrown away by this session");
            return Err(RunError::Changed(problem));
        }
        let answer = self.ec2.attach(id, instance, DEVICE).await;
        if answer.as_ref().err().is_none_or(may_have_happened) {
            self.keep_move(id, AttachmentState::Attaching, instance);
        }
        Ok(answer?)
    }
}
