//! Tags as they are read. A tag that is missing or cannot be parsed is an error where the drive's state
//! depends on it.

use jiff::Timestamp;

use super::{
    BASE, BLANK, DISCARD, DISK, DRIVE, FORMATTED, GENERATION, HOST_KEY, KIND, NUMBER, OP, OWNER,
    SCRATCH, SESSION, SnapshotKind, SnapshotTags, UNTIL, UUID, Unreadable, VolumeTags, WORKER_OF,
    thrown_away_by,
};
use crate::ec2::Tags;
use crate::ids::{DriveName, Generation, SessionId, Uuid};

/// The drive that the thing belongs to; none if there is no tag, or it can be no drive's name.
#[must_use]
pub fn drive(tags: &Tags) -> Option<DriveName> {
    tags.get(DRIVE)?.parse().ok()
}

/// The session that made or last claimed the thing; an empty id if there is no tag.
#[must_use]
pub fn session(tags: &Tags) -> SessionId {
    SessionId(tags.get(SESSION).cloned().unwrap_or_default())
}

/// Whether the drive was made to be thrown away.
#[must_use]
pub fn is_scratch(tags: &Tags) -> bool {
    tags.contains_key(SCRATCH)
}

/// The drive that leads the worker which begins with this snapshot, if it is one's.
#[must_use]
pub fn worker_of(tags: &Tags) -> Option<DriveName> {
    tags.get(WORKER_OF)?.parse().ok()
}

/// Whether a snapshot may be deleted with nothing in its place: what it has is made up, or is on another
/// drive.
#[must_use]
pub fn is_disposable(tags: &Tags) -> bool {
    is_scratch(tags) || worker_of(tags).is_some()
}

/// The owner; empty if there is no tag.
#[must_use]
pub fn owner(tags: &Tags) -> &str {
    tags.get(OWNER).map_or("", String::as_str)
}

/// Whether the thing has an owner.
#[must_use]
pub fn has_owner(tags: &Tags) -> bool {
    !owner(tags).is_empty()
}

/// The host's public key.
#[must_use]
pub fn host_key(tags: &Tags) -> Option<&str> {
    tags.get(HOST_KEY).map(String::as_str)
}

/// When the lease ends; none if the tag is missing or cannot be parsed.
#[must_use]
pub fn until(tags: &Tags) -> Option<Timestamp> {
    tags.get(UNTIL)?.parse().ok()
}

/// Reads a volume's tags.
pub fn read_volume(tags: &Tags) -> Result<VolumeTags, Unreadable> {
    if tags.get(DISK).is_some_and(|disk| disk == "root") {
        return Ok(VolumeTags::Root);
    }
    let base = generation(tags, BASE)?;
    let own = generation(tags, GENERATION)?;
    if own < base {
        return Err(Unreadable {
            tag: GENERATION,
            problem: format!("is {own}, less than its base {base}"),
        });
    }
    if let Some(session) = thrown_away_by(tags) {
        // The drive's volumes are raised before they are attached: this is taken for none of both.
        if own != base || tags.contains_key(BLANK) {
            return Err(Unreadable {
                tag: DISCARD,
                problem: "is on a volume of the drive".to_owned(),
            });
        }
        let uuid = uuid(tags)?;
        return Ok(VolumeTags::Throwaway {
            base,
            uuid,
            session,
        });
    }
    Ok(VolumeTags::Drive {
        base,
        generation: own,
        blank: tags.contains_key(BLANK),
        formatted: tags.contains_key(FORMATTED),
        uuid: uuid(tags)?,
        session: session(tags),
    })
}

/// Reads a snapshot's tags.
pub fn read_snapshot(tags: &Tags) -> Result<SnapshotTags, Unreadable> {
    let kinds = [
        SnapshotKind::Clean,
        SnapshotKind::Crashed,
        SnapshotKind::Checkpoint,
    ];
    let kind = text(tags, KIND)?;
    let Some(kind) = kinds.into_iter().find(|known| known.as_str() == kind) else {
        return Err(Unreadable {
            tag: KIND,
            problem: format!("is {kind:?}"),
        });
    };
    Ok(SnapshotTags {
        generation: generation(tags, GENERATION)?,
        kind,
        op: text(tags, OP)?.to_owned(),
        uuid: uuid(tags)?,
        // It only orders the checkpoints of one generation, so one that cannot be parsed is 0.
        number: tags
            .get(NUMBER)
            .and_then(|number| number.parse().ok())
            .unwrap_or_default(),
    })
}

fn uuid(tags: &Tags) -> Result<Option<Uuid>, Unreadable> {
    tags.get(UUID)
        .map(|given| {
            given.parse().map_err(|_| Unreadable {
                tag: UUID,
                problem: format!("is {given:?}, not a UUID"),
            })
        })
        .transpose()
}

fn text<'a>(tags: &'a Tags, tag: &'static str) -> Result<&'a str, Unreadable> {
    tags.get(tag).map(String::as_str).ok_or_else(|| Unreadable {
        tag,
        problem: "is missing".to_owned(),
    })
}

fn generation(tags: &Tags, tag: &'static str) -> Result<Generation, Unreadable> {
    let given = text(tags, tag)?;
    given.parse().map_err(|_| Unreadable {
        tag,
        problem: format!("is {given:?}, not a number"),
    })
}

/// The newest of a drive's `parts` (volumes, snapshots), by their `tags`: that of the highest
/// generation, never the latest by time. Of one generation a snapshot counts as newer than its
/// volume, and a final one as newer than a checkpoint. Root disks, what is thrown away, and tags that
/// cannot be read are left out.
pub fn newest<'a, T>(
    parts: impl Iterator<Item = &'a T>,
    tags: impl Fn(&T) -> &Tags,
) -> Option<(Generation, &'a T)> {
    let rank = |part: &T| match (read_volume(tags(part)), read_snapshot(tags(part))) {
        (_, Ok(snapshot)) => Some((snapshot.generation, Some(snapshot.kind))),
        (Ok(VolumeTags::Drive { generation, .. }), _) => Some((generation, None)),
        _ => None,
    };
    parts
        .filter_map(|part| Some((rank(part)?, part)))
        .max_by_key(|(rank, _)| *rank)
        .map(|((generation, _), part)| (generation, part))
}
