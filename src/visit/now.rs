//! `xdrive fork --now`: the present state of a drive that is up, as far as its programs have written it.

use anyhow::anyhow;

use super::visitor::{Visit, Visitor};
use crate::attached::reach_live;
use crate::ec2::Volume;
use crate::failure::{Exit, Failure};
use crate::opener::{Drive, or_interrupted};

/// Has the host write all that waits to be written to the drive's volume. Returns the drive, and that volume.
pub(crate) async fn sync(drive: Drive, visitor: Visitor) -> Result<(Drive, Volume), Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let host = visit.drive.facts.host.clone();
    let live = reach_live(&mut visit.drive, visit.reconciler.hosts(), host).await?;
    let drive = &mut visit.drive;
    let syncing = live.host.sync();
    let synced = or_interrupted(&mut drive.signals, &drive.report, syncing).await?;
    synced.map_err(anyhow::Error::new)?;
    let volume = drive.mounted_volume(&live.instance).await?;
    let name = &drive.name;
    let volume = volume.ok_or_else(|| {
        let error = anyhow!("{name} is on no volume that is kept: its session throws it away");
        Failure::new(Exit::Unavailable, error)
    })?;
    Ok((visit.drive, volume))
}
