//! The tags of the snapshot that a drive begins with as a copy.

use super::settings::ADDRESS;
use super::write::written;
use super::{
    GENERATION, Settings, SnapshotKind, SnapshotTags, Unreadable, VolumeTags, read_snapshot,
    read_volume,
};
use crate::drive::source::CopySource;
use crate::ec2::Tags;
use crate::ids::{DriveAt, DriveName, Generation, SnapshotId, VolumeId};

/// On the snapshot that a drive begins with as a copy: the drive and generation that it is a copy of,
/// such as `demo@12`, or the id of the snapshot or volume that was no drive's.
pub const FORKED_FROM: &str = "xdrive:forked-from";

/// The tags of a copy of the snapshot `source`, which has the tags `of`, but for those of all things
/// of a drive ([`common`]). All copies of one snapshot have the same [`OP`]: they are one lineage.
pub fn fork(
    of: &Tags,
    source: &SnapshotId,
    from: &DriveAt,
) -> Result<(SnapshotTags, Tags), Unreadable> {
    let own = SnapshotTags {
        op: format!("copy-of-{source}"),
        ..read_snapshot(of)?
    };
    Ok(copied(own, of, from))
}

/// The tags of a snapshot of the volume `source` of the drive `from`, in use and with the tags `of`, with which
/// another drive begins; but for those of all things of a drive. As a checkpoint it proves nothing of that volume.
pub fn fork_now(
    of: &Tags,
    source: &VolumeId,
    from: &DriveName,
) -> Result<(SnapshotTags, Tags), Unreadable> {
    let own = match read_volume(of)? {
        VolumeTags::Drive {
            generation, uuid, ..
        } => SnapshotTags {
            generation,
            kind: SnapshotKind::Checkpoint,
            op: format!("copy-of-{source}"),
            uuid,
            number: 1,
        },
        VolumeTags::Root | VolumeTags::Throwaway { .. } => {
            return Err(Unreadable {
                tag: GENERATION,
                problem: "is of a volume that is not kept".to_owned(),
            });
        }
    };
    let from = DriveAt {
        name: from.clone(),
        generation: Some(own.generation),
    };
    Ok(copied(own, of, &from))
}

/// The tags `own` of a copy of what has the tags `of`, as tags; with the settings of the drive `from`.
fn copied(own: SnapshotTags, of: &Tags, from: &DriveAt) -> (SnapshotTags, Tags) {
    let mut tags = written(&own);
    tags.extend(Settings::read(of).tags());
    // Two drives cannot have it, and no other region has.
    tags.remove(ADDRESS);
    tags.insert(FORKED_FROM.to_owned(), from.to_string());
    (own, tags)
}

/// The tags of a copy of `source`, which is no drive's, but for those of all things of a drive. Its
/// generation is the first, since 0 is that of a volume which was made empty. All copies of one
/// source have the same [`OP`].
#[must_use]
pub fn adopt(source: &CopySource, kind: SnapshotKind) -> (SnapshotTags, Tags) {
    let own = SnapshotTags {
        generation: Generation::EMPTY.next(),
        kind,
        op: format!("copy-of-{source}"),
        uuid: None,
        number: 0,
    };
    let mut tags = written(&own);
    tags.insert(FORKED_FROM.to_owned(), source.to_string());
    (own, tags)
}

/// Whether the drive began with this snapshot, as a copy of something else.
#[must_use]
pub fn is_copy(tags: &Tags) -> bool {
    tags.contains_key(FORKED_FROM)
}

/// The origin of the copy that the drive began with, if this snapshot is that copy and says so: a
/// drive's generation, or the id of a snapshot or volume.
#[must_use]
pub fn forked_from(tags: &Tags) -> Option<&str> {
    let text = tags.get(FORKED_FROM)?;
    let is_known = text.parse::<DriveAt>().is_ok() || text.parse::<CopySource>().is_ok();
    is_known.then_some(text)
}
