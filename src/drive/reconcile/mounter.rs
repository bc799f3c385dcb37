//! The tag of who had the drive mounted last.

use super::super::hosts::Hosts;
use super::super::tags::{self, NOBODY};
use super::{Reconciler, RunError};
use crate::ec2::{Ownership, Tags};
use crate::host::AtMount;
use crate::ids::VolumeId;

impl<H: Hosts> Reconciler<H> {
    /// The tag that a volume gets with another session, by those that it has: nobody's, where what is frozen
    /// on it `is_forgotten` at its mount.
    pub(super) fn mounter(&mut self, volume: &VolumeId, has: &Tags, is_forgotten: bool) -> Tags {
        let owner = &self.overlay.who.owner;
        let before = tags::mounter_before(has, owner);
        let mounter = if is_forgotten { NOBODY } else { before }.to_owned();
        self.unnoted = (mounter != *owner).then(|| volume.clone());
        tags::mounted_by(&mounter)
    }

    /// The order for what is frozen on a volume with these tags, which is to be mounted: whoever had another
    /// caller's may have written it.
    pub(super) fn frozen(&self, tags: &Tags) -> AtMount {
        let owner = &self.overlay.who.owner;
        match Ownership::from_tag(tags::mounter_before(tags, owner), owner) {
            Ownership::Other => AtMount::Leave,
            Ownership::Own | Ownership::OfRole => AtMount::Keep,
        }
    }

    /// Notes that this session has the drive mounted, where another one's owner had it last.
    pub async fn note_mounter(&mut self) -> Result<(), RunError> {
        if let Some(volume) = self.unnoted.clone() {
            let mounted = tags::mounted_by(&self.overlay.who.owner);
            self.ec2.tag(volume.as_str(), &mounted).await?;
            self.unnoted = None;
        }
        Ok(())
    }
}
