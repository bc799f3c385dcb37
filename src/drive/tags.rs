//! The record: the tags that xdrive writes, and how they are read back.
//!
//! The tags that a thing needs are written in the call that creates it. Later a tag is added or,
//! for a generation, raised; none is deleted to mean something. So a stale read can make xdrive
//! wait or take an extra snapshot, but never lose data.
//!
//! A resource that has the drive's tag and cannot be parsed is [`Unreadable`], never skipped: it
//! may be the drive's newest state.

mod copies;
mod leaving;
mod record;
mod settings;
mod throwaway;

use jiff::Timestamp;

use crate::ec2::{Arch, Tags};
use crate::ids::{DriveName, Generation, SessionId, Uuid};

pub use copies::{FORKED_FROM, adopt, fork, forked_from, is_copy};
pub use leaving::Leaving;
pub use record::{InvalidNote, Note, Record, noted};
pub use settings::{OWN_MOST, Settings};
pub use throwaway::{DISCARD, throwaway, thrown_away_by};

/// The name that AWS's console shows: the drive's.
pub const NAME: &str = "Name";
/// The session that made or last claimed the thing.
pub const SESSION: &str = "xdrive:session";
/// On root disks: `root`, which keeps them from being read as drives' volumes.
pub use crate::ec2::DISK;
/// On snapshots: `clean`, `crashed` or `checkpoint`.
pub use crate::ec2::KIND;
/// On snapshots: the unique id of the attempt.
pub use crate::ec2::OP;
/// The drive that the thing belongs to, by which xdrive filters; and the ARN of its session's
/// caller (see [`crate::ec2::Ownership`]).
pub use crate::ec2::{DRIVE, OWNER};
/// On instances: the host's public SSH key.
pub const HOST_KEY: &str = "xdrive:host-key";
/// On instances: when the lease ends (RFC 3339, by the writer's clock). It is written before the
/// lease is set on the host, so that no lease lasts longer than this.
pub const UNTIL: &str = "xdrive:until";
/// On volumes: created empty.
pub const BLANK: &str = "xdrive:blank";
/// On volumes created empty: the generation at which it was first seen formatted, written before
/// the drive is used. A volume created empty that lacks it holds no data.
pub const FORMATTED: &str = "xdrive:formatted";
/// On volumes and snapshots: the UUID of the drive's file system, from when a host first reported
/// it.
pub const UUID: &str = "xdrive:uuid";
/// On volumes: the generation it started with.
pub const BASE: &str = "xdrive:base";
/// On volumes and snapshots: how often the drive has been mounted.
pub const GENERATION: &str = "xdrive:generation";
/// On checkpoints: its number within its generation, from 1.
pub const NUMBER: &str = "xdrive:number";

/// On instances: the machine image as it was asked for (a `resolve:ssm:` parameter or an id), in
/// the call that launched it. On volumes, and so on snapshots: the id of the image under which the
/// drive was last used, as EC2 answered it; there it outlives the instance.
pub const AMI: &str = "xdrive:ami";
/// On volumes and snapshots: the architecture of the programs on the drive, `x86_64` or `arm64`;
/// settled by the drive's first launch.
pub const ARCH: &str = "xdrive:arch";

/// On snapshots of a drive that its user deletes: the session. The newest has it last, and from then
/// on the drive is not mounted any more.
pub const DELETING: &str = "xdrive:deleting";
/// On snapshots of a drive that its user renames: the name that it gets. The same holds, as long as it
/// is not the drive's own.
pub const RENAMING: &str = "xdrive:renaming";

/// On volumes and snapshots of a scratch drive, made for a test: its snapshots may be deleted with
/// nothing in their place.
pub const SCRATCH: &str = "xdrive:scratch";

/// A session and its caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The run of xdrive.
    pub session: SessionId,
    /// The ARN of its caller.
    pub owner: String,
}

/// How a snapshot came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnapshotKind {
    /// Taken while the drive was in use: it never allows a deletion.
    Checkpoint,
    /// Taken after the volume's host vanished.
    Crashed,
    /// Taken after the drive was closed.
    Clean,
}

/// A volume's tags, read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeTags {
    /// An instance's root disk.
    Root,
    /// A drive's volume.
    Drive {
        /// The generation it started with.
        base: Generation,
        /// The generation it is at.
        generation: Generation,
        /// Created empty.
        blank: bool,
        /// Known to have been formatted.
        formatted: bool,
        /// The file system's UUID, if that is recorded.
        uuid: Option<Uuid>,
        /// The session that made or last claimed it.
        session: SessionId,
    },
    /// A volume that is thrown away: no state of the drive, whatever is on it.
    Throwaway {
        /// The generation of the snapshot that it was made from, for ever.
        base: Generation,
        /// The file system's UUID, if that is recorded on the snapshot.
        uuid: Option<Uuid>,
        /// The session that made it and throws it away.
        session: SessionId,
    },
}

/// A snapshot's tags, read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SnapshotTags {
    /// The generation of the snapshot's volume.
    pub generation: Generation,
    /// How it came to be.
    pub kind: SnapshotKind,
    /// The attempt that made it.
    pub op: String,
    /// The file system's UUID, if that was recorded on the volume.
    pub uuid: Option<Uuid>,
    /// A checkpoint's number within its generation, from 1; else 0.
    pub number: u32,
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

/// The tag that is missing or cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("its tag {tag} {problem}")]
pub struct Unreadable {
    /// The tag's key.
    pub tag: &'static str,
    /// The fault of the tag's value.
    pub problem: String,
}

impl SnapshotKind {
    /// The value of [`KIND`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Crashed => "crashed",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// The tags that all things of a drive have.
#[must_use]
pub fn common(drive: &DriveName, who: &Identity) -> Tags {
    [
        (NAME, drive.as_str()),
        (DRIVE, drive.as_str()),
        (SESSION, &who.session.0),
        (OWNER, &who.owner),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// An instance's tags. Its host switches itself off after `until` unless the lease is renewed.
#[must_use]
pub fn instance(drive: &DriveName, who: &Identity, host_key: &str, until: Timestamp) -> Tags {
    let mut tags = common(drive, who);
    tags.insert(HOST_KEY.to_owned(), host_key.to_owned());
    tags.extend(lease(until));
    tags
}

/// The tag of the machine image: see [`AMI`].
#[must_use]
pub fn image(image: &str) -> Tags {
    Tags::from([(AMI.to_owned(), image.to_owned())])
}

/// The tag of a drive's architecture.
#[must_use]
pub fn arch(arch: Arch) -> Tags {
    Tags::from([(ARCH.to_owned(), arch.to_string())])
}

/// The tag that renewing a lease writes, to the second: no decision needs less.
#[must_use]
pub fn lease(until: Timestamp) -> Tags {
    Tags::from([(UNTIL.to_owned(), format!("{until:.0}"))])
}

/// The tag by which a host is known once it has made its own key.
#[must_use]
pub fn own_host_key(key: &str) -> Tags {
    Tags::from([(HOST_KEY.to_owned(), key.to_owned())])
}

/// A security group's tags: it belongs to its owner, not to a drive.
#[must_use]
pub fn group(owner: &str) -> Tags {
    [(OWNER.to_owned(), owner.to_owned())].into()
}

/// A root disk's tags.
#[must_use]
pub fn root(drive: &DriveName, who: &Identity) -> Tags {
    let mut tags = common(drive, who);
    tags.insert(DISK.to_owned(), "root".to_owned());
    tags
}

/// A new volume's tags. `base` is its snapshot's generation, or [`Generation::EMPTY`]; `blank` is
/// whether it is created empty; `uuid` is its snapshot's.
#[must_use]
pub fn volume(
    drive: &DriveName,
    who: &Identity,
    base: Generation,
    blank: bool,
    uuid: Option<Uuid>,
    settings: &Settings,
) -> Tags {
    let mut tags = common(drive, who);
    tags.extend(uuid.map(identified).unwrap_or_default());
    tags.insert(BASE.to_owned(), base.to_string());
    tags.insert(GENERATION.to_owned(), base.to_string());
    if blank {
        tags.insert(BLANK.to_owned(), "yes".to_owned());
    }
    tags.extend(settings.tags());
    tags
}

/// A snapshot's tags; `settings` are its volume's.
#[must_use]
pub fn snapshot(
    drive: &DriveName,
    who: &Identity,
    own: &SnapshotTags,
    settings: &Settings,
) -> Tags {
    let mut tags = common(drive, who);
    tags.extend(written(own));
    tags.extend(settings.tags());
    tags
}

/// The tag of a snapshot's kind.
#[must_use]
pub fn of_kind(kind: SnapshotKind) -> Tags {
    Tags::from([(KIND.to_owned(), kind.as_str().to_owned())])
}

fn written(own: &SnapshotTags) -> Tags {
    let mut tags = Tags::new();
    tags.insert(GENERATION.to_owned(), own.generation.to_string());
    tags.extend(of_kind(own.kind));
    tags.insert(OP.to_owned(), own.op.clone());
    tags.extend(own.uuid.map(identified).unwrap_or_default());
    if own.number > 0 {
        tags.insert(NUMBER.to_owned(), own.number.to_string());
    }
    tags
}

/// The tags that a claim writes: the new session and its owner.
#[must_use]
pub fn claim(who: &Identity) -> Tags {
    [(SESSION, &who.session.0), (OWNER, &who.owner)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}

/// The tags that raising a generation writes.
#[must_use]
pub fn raised(who: &Identity, generation: Generation) -> Tags {
    let mut tags = claim(who);
    tags.insert(GENERATION.to_owned(), generation.to_string());
    tags
}

/// The tag that marks a volume as formatted.
#[must_use]
pub fn formatted(generation: Generation) -> Tags {
    Tags::from([(FORMATTED.to_owned(), generation.to_string())])
}

/// The tag that records a file system's UUID.
#[must_use]
pub fn identified(uuid: Uuid) -> Tags {
    Tags::from([(UUID.to_owned(), uuid.to_string())])
}

/// The tags that give a thing to another drive.
#[must_use]
pub fn renamed(drive: &DriveName) -> Tags {
    [NAME, DRIVE]
        .into_iter()
        .map(|key| (key.to_owned(), drive.to_string()))
        .collect()
}

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

#[cfg(test)]
mod tests;
