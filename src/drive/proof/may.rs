//! Permits for one call: grounds that also held when they were re-read by id right before it.
//!
//! Their fields are private to this module and their constructors to [`super`], so `confirm` makes
//! them and code elsewhere cannot. They are not `Clone`, and a call consumes its permit.

use crate::ec2::{Permit, Prove, Rules};
use crate::ids::{InstanceId, SnapshotId, VolumeId};

/// Permits one `TerminateInstances`.
///
/// ```compile_fail
/// # use xdrive::{ec2::Ec2, ids::InstanceId};
/// async fn end(ec2: &Ec2, id: &InstanceId) {
///     ec2.terminate(id).await; // an id is no proof
/// }
/// ```
///
/// ```compile_fail
/// # use xdrive::{drive::proof::MayTerminate, ids::InstanceId};
/// fn forge(id: InstanceId) -> MayTerminate {
///     MayTerminate(id) // its field is private
/// }
/// ```
///
/// ```
/// # use xdrive::{drive::proof::MayTerminate, ec2::Ec2};
/// async fn end(ec2: &Ec2, proof: MayTerminate) {
///     ec2.terminate(proof).await;
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct MayTerminate(InstanceId);

/// Permits one `DeleteVolume`.
///
/// ```compile_fail
/// # use xdrive::{ec2::Ec2, ids::VolumeId};
/// async fn end(ec2: &Ec2, id: &VolumeId) {
///     ec2.delete_volume(id).await;
/// }
/// ```
///
/// ```compile_fail
/// # use xdrive::{drive::proof::MayDelete, ec2::Ec2};
/// async fn end(ec2: &Ec2, proof: MayDelete) {
///     ec2.delete_volume(proof).await;
///     ec2.delete_volume(proof).await; // it is used up
/// }
/// ```
///
/// ```
/// # use xdrive::{drive::proof::MayDelete, ec2::Ec2};
/// async fn end(ec2: &Ec2, proof: MayDelete) {
///     ec2.delete_volume(proof).await;
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct MayDelete(VolumeId);

/// Permits one `DeleteSnapshot`.
///
/// ```compile_fail
/// # use xdrive::{ec2::Ec2, ids::SnapshotId};
/// async fn end(ec2: &Ec2, id: &SnapshotId) {
///     ec2.delete_snapshot(id).await;
/// }
/// ```
///
/// ```
/// # use xdrive::{drive::proof::MayPrune, ec2::Ec2};
/// async fn end(ec2: &Ec2, proof: MayPrune) {
///     ec2.delete_snapshot(proof).await;
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct MayPrune(SnapshotId);

impl Prove for Rules {
    type MayTerminate = MayTerminate;
    type MayDelete = MayDelete;
    type MayPrune = MayPrune;
}

impl MayTerminate {
    pub(super) fn new(id: &InstanceId) -> Self {
        Self(id.clone())
    }
}

impl MayDelete {
    pub(super) fn new(id: &VolumeId) -> Self {
        Self(id.clone())
    }
}

impl MayPrune {
    pub(super) fn new(id: &SnapshotId) -> Self {
        Self(id.clone())
    }
}

impl Permit<InstanceId> for MayTerminate {
    fn used_for(self) -> InstanceId {
        self.0
    }
}

impl Permit<VolumeId> for MayDelete {
    fn used_for(self) -> VolumeId {
        self.0
    }
}

impl Permit<SnapshotId> for MayPrune {
    fn used_for(self) -> SnapshotId {
        self.0
    }
}
