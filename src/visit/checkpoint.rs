//! A checkpoint of a drive that is up, for whoever tends a run on it.

use super::visitor::{Visit, Visitor};
use crate::failure::Failure;
use crate::opener::{Drive, run_failure};

/// Takes a checkpoint of the drive, if one may be taken now.
pub(crate) async fn checkpoint(drive: Drive, visitor: Visitor) -> Result<(), Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    // A call to the cloud is always awaited to its end.
    let taken = visit.reconciler.checkpoint().await;
    taken.map(drop).map_err(run_failure)
}
