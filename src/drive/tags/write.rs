//! Tags as they are written, by the call that creates a thing or later.

use jiff::Timestamp;

use super::{
    AMI, ARCH, BASE, BLANK, Carried, DISK, DRIVE, FORMATTED, GENERATION, HOST_KEY, Identity, KIND,
    NAME, NUMBER, OP, OWNER, SESSION, SnapshotKind, SnapshotTags, UNTIL, UUID,
};
use crate::ec2::{Arch, Tags};
use crate::ids::{DriveName, Generation, Uuid};

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
/// whether it is created empty; `uuid` and `carried` are its snapshot's.
#[must_use]
pub fn volume(
    drive: &DriveName,
    who: &Identity,
    base: Generation,
    blank: bool,
    uuid: Option<Uuid>,
    carried: &Carried,
) -> Tags {
    let mut tags = common(drive, who);
    tags.extend(uuid.map(identified).unwrap_or_default());
    tags.insert(BASE.to_owned(), base.to_string());
    tags.insert(GENERATION.to_owned(), base.to_string());
    if blank {
        tags.insert(BLANK.to_owned(), "yes".to_owned());
    }
    tags.extend(carried.tags());
    tags
}

/// A snapshot's tags; `carried` are its volume's.
#[must_use]
pub fn snapshot(drive: &DriveName, who: &Identity, own: &SnapshotTags, carried: &Carried) -> Tags {
    let mut tags = common(drive, who);
    tags.extend(written(own));
    tags.extend(carried.tags());
    tags
}

/// The tag of a snapshot's kind.
#[must_use]
pub fn of_kind(kind: SnapshotKind) -> Tags {
    Tags::from([(KIND.to_owned(), kind.as_str().to_owned())])
}

pub(super) fn written(own: &SnapshotTags) -> Tags {
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
