//! The types of the proofs that terminating and deleting calls take.
//!
//! The rules for when a resource may be destroyed are in `drive::proof`, which this room does not
//! know. Here a proof names one resource and is consumed by one call. `drive::proof` names its
//! types by implementing [`Prove`] for [`Rules`]; the compiler accepts one implementation only.

use crate::ids::{InstanceId, SnapshotId, VolumeId};

/// The type that [`Prove`] is implemented for.
#[derive(Debug)]
pub enum Rules {}

/// The types of the proofs. Implemented once, for [`Rules`].
pub trait Prove {
    /// The proof that an instance may be terminated.
    type MayTerminate: Permit<InstanceId>;
    /// The proof that a volume may be deleted.
    type MayDelete: Permit<VolumeId>;
    /// The proof that a snapshot may be deleted.
    type MayPrune: Permit<SnapshotId>;
}

/// A proof about one resource, good for one call.
pub trait Permit<Id> {
    /// The resource's id; consumes the proof.
    fn used_for(self) -> Id;
}

/// The proof that [`super::Ec2::terminate`] takes.
pub type MayTerminate = <Rules as Prove>::MayTerminate;

/// The proof that [`super::Ec2::delete_volume`] takes.
pub type MayDelete = <Rules as Prove>::MayDelete;

/// The proof that [`super::Ec2::delete_snapshot`] takes.
pub type MayPrune = <Rules as Prove>::MayPrune;
