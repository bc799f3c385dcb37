//! What the calls that destroy take: a proof, never an id.
//!
//! When something may be destroyed is not EC2's to know, so here is only what a proof is to a call:
//! it names one thing, and is used up. Whoever owns the rules says which types the proofs are, by
//! implementing [`Prove`] for [`Rules`]: the compiler takes one such implementation and no second,
//! and types whose fields are private are made nowhere but beside the rules.

use super::{InstanceId, SnapshotId, VolumeId};

/// The rules that the calls go by; see [`Prove`].
#[derive(Debug)]
pub enum Rules {}

/// Which types the proofs are. Implemented once, for [`Rules`].
pub trait Prove {
    /// An instance may be terminated.
    type MayTerminate: Permit<InstanceId>;
    /// A volume may be deleted.
    type MayDelete: Permit<VolumeId>;
    /// A snapshot may be deleted.
    type MayPrune: Permit<SnapshotId>;
}

/// A proof about one thing, good for one call.
pub trait Permit<Id> {
    /// The thing; the proof is used up.
    fn used_for(self) -> Id;
}

/// What [`super::Ec2::terminate`] takes.
pub type MayTerminate = <Rules as Prove>::MayTerminate;

/// What [`super::Ec2::delete_volume`] takes.
pub type MayDelete = <Rules as Prove>::MayDelete;

/// What [`super::Ec2::delete_snapshot`] takes.
pub type MayPrune = <Rules as Prove>::MayPrune;
