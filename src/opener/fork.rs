//! Whether a drive is the fork that its name says.

use anyhow::anyhow;

use crate::cloud::Cloud;
use crate::drive::reconcile::is_left;
use crate::drive::tags::{self, SnapshotTags, VolumeTags};
use crate::ec2::{Snapshot, Tags, Volume};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveName, Uuid};

/// Fails if the drive of these parts is known not to be a fork of `of`: anybody may have made a drive of
/// that name, or a fork of something else. Where nothing is recorded it is taken for one.
pub(crate) async fn demand_fork(
    drive: &DriveName,
    volumes: &[Volume],
    snapshots: &[Snapshot],
    of: &DriveAt,
    cloud: &Cloud,
) -> Result<(), Failure> {
    let volumes = volumes.iter().filter(|it| is_left(it));
    let volumes: Vec<&Tags> = volumes.map(|it| &it.tags).collect();
    let snapshots: Vec<&Tags> = snapshots.iter().map(|it| &it.tags).collect();
    if volumes.is_empty() && snapshots.is_empty() {
        return Ok(());
    }
    let originals = cloud.ec2.snapshots(&of.name).await?;
    let originals: Vec<&Tags> = originals.iter().map(|it| &it.tags).collect();
    if may_be_fork(&volumes, &snapshots, of, &originals) {
        return Ok(());
    }
    let command = &cloud.command;
    let error = anyhow!("there is a drive {drive} already, and it is no fork of {of}");
    let hint = format!(
        "{command} connect {drive} opens that one, {command} fork {of} ANOTHER makes a fork"
    );
    Err(Failure::new(Exit::Usage, error).hint(hint))
}

/// Whether the tags of a drive's parts allow that it began as a fork of `of`, whose drive has the
/// snapshots `originals`. Only the copy that a fork begins with has the record, and it may be deleted.
fn may_be_fork(volumes: &[&Tags], snapshots: &[&Tags], of: &DriveAt, originals: &[&Tags]) -> bool {
    let recorded = snapshots.iter().filter_map(|it| tags::forked_from(it));
    let recorded: Vec<&str> = recorded.collect();
    let name = of.to_string();
    let is_recorded =
        !snapshots.iter().any(|it| tags::is_copy(it)) || recorded.contains(&name.as_str());
    // A fork goes on from the generation of its original.
    let first = of.generation.unwrap_or_default();
    let read = |it: &&Tags| tags::read_snapshot(it).ok();
    let own: Vec<SnapshotTags> = snapshots.iter().filter_map(read).collect();
    let is_later = own.iter().all(|it| it.generation >= first)
        && volumes.iter().all(|it| match tags::read_volume(it) {
            Ok(VolumeTags::Drive { base, .. } | VolumeTags::Throwaway { base, .. }) => {
                base >= first
            }
            Ok(VolumeTags::Root) | Err(_) => true,
        });
    // Another drive may have had the original's name.
    let originals = originals.iter().filter_map(read);
    let originals = originals.filter(|it| it.generation == first);
    let known: Vec<Uuid> = originals.filter_map(|it| it.uuid).collect();
    let own = own.iter().find_map(|it| it.uuid);
    let is_same = own.is_none_or(|own| known.is_empty() || known.contains(&own));
    is_recorded && is_later && is_same
}
