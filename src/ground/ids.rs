//! Ids, names and generations, parsed once at the edge.
//!
//! EC2, the drive and its hosts speak of the same volumes, instances and generations: each is one
//! type, which no room owns. Nothing here knows what an id is used for.

mod containers;
mod reference;
mod shares;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use containers::{ContainerName, DriveIn, InvalidContainer, InvalidDriveIn, MAIN};
pub use reference::{ImageReference, InvalidReference, is_archive};
pub use shares::{InvalidShare, ShareName};
pub use uuid::Uuid;

/// The id that cannot be parsed, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {expected} id")]
pub struct InvalidId {
    given: String,
    expected: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as AWS writes it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(given: &str) -> Result<Self, InvalidId> {
                match given.strip_prefix($prefix) {
                    Some(hex) if !hex.is_empty()
                        && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) =>
                    {
                        Ok(Self(given.to_owned()))
                    }
                    _ => Err(InvalidId { given: given.to_owned(), expected: $expected }),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(given: String) -> Result<Self, InvalidId> {
                given.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

id!(
    /// `i-…`, an instance.
    InstanceId, "i-", "an instance"
);
id!(
    /// `vol-…`, a volume.
    VolumeId, "vol-", "a volume"
);
id!(
    /// `snap-…`, a snapshot.
    SnapshotId, "snap-", "a snapshot"
);
id!(
    /// `subnet-…`, a subnet: one zone's part of a VPC.
    SubnetId, "subnet-", "a subnet"
);
id!(
    /// `vpc-…`, a network of the account's own.
    VpcId, "vpc-", "a VPC"
);
id!(
    /// `sg-…`, a security group.
    GroupId, "sg-", "a security group"
);
id!(
    /// `eipalloc-…`, an Elastic IP address.
    AllocationId, "eipalloc-", "an allocation"
);
id!(
    /// `cr-…`, a capacity reservation.
    ReservationId, "cr-", "a capacity reservation's"
);
id!(
    /// `fs-…`, a file system of Elastic File System.
    FileSystemId, "fs-", "a file system"
);
id!(
    /// `fsmt-…`, a mount target: a file system's address in one zone.
    MountTargetId, "fsmt-", "a mount target"
);

/// A resource in words for people: whose it is, its kind and its id. `whose` is all that comes
/// before the kind, as `demo's` or `the drive's newest`.
fn label(whose: impl fmt::Display, kind: &str, id: &str) -> String {
    format!("{whose} {kind} ({id})")
}

macro_rules! resource {
    ($name:ident, $kind:literal) => {
        /// The id in a line for people, who read names before ids.
        impl $name {
            /// The resource with its drive's name: `demo's volume (vol-…)`.
            #[must_use]
            pub fn drive_label(&self, drive: impl fmt::Display) -> String {
                self.after(format_args!("{drive}'s"))
            }

            /// The resource in a line that has named the drive: `its volume (vol-…)`.
            #[must_use]
            pub fn short_label(&self) -> String {
                self.after("its")
            }

            /// The resource after other words, such as `demo's superseded`, or `the` where the
            /// drive's name is not known.
            #[must_use]
            pub fn after(&self, words: impl fmt::Display) -> String {
                label(words, $kind, &self.0)
            }
        }
    };
}

resource!(InstanceId, "instance");
resource!(VolumeId, "volume");
resource!(SnapshotId, "snapshot");

/// The longest name, in bytes. A tag could hold 256, but the name is also a host name, a file name
/// and a column of `xdrive list`.
const LONGEST: usize = 64;

/// A drive's name: 1–64 letters, digits, `.`, `_` and `-`, the first a letter or a digit, without
/// `..`. It is safe in a path, a tag, a shell word and a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveName(String);

/// The drive name that cannot be parsed, by its first problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The empty text.
    #[error("a drive's name cannot be empty")]
    Empty,
    /// More than 64 characters.
    #[error("a drive's name has at most {LONGEST} characters, this one has {0}")]
    TooLong(usize),
    /// The first character is neither a letter nor a digit.
    #[error("a drive's name starts with a letter or a digit, not with {0:?}")]
    Start(char),
    /// A character that is not allowed.
    #[error("a drive's name has letters, digits, '.', '_' and '-' only, not {0:?}")]
    Character(char),
    /// Two dots in a row, which in a path mean the folder above.
    #[error("a drive's name cannot contain \"..\"")]
    Dots,
}

impl DriveName {
    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which a lineage that was not chosen is kept: `NAME.fork-NUMBER`, with NAME
    /// cut so that the result is a valid name.
    #[must_use]
    pub fn fork(&self, number: u32) -> Self {
        self.with(&format!(".fork-{number}"))
    }

    /// The name of the fork that is made to work on a former generation: `NAME.at-N`, with NAME cut
    /// likewise.
    #[must_use]
    pub fn at(&self, generation: Generation) -> Self {
        self.with(&format!(".at-{generation}"))
    }

    /// The name of a drive's worker of this number: `NAME.wN`, with NAME cut likewise.
    #[must_use]
    pub fn worker(&self, number: u16) -> Self {
        self.with(&format!(".w{number}"))
    }

    fn with(&self, suffix: &str) -> Self {
        let kept: String = self.0.chars().take(LONGEST - suffix.len()).collect();
        // A cut name may end in a dot, which with the suffix's own would make two.
        Self(format!("{}{suffix}", kept.trim_end_matches('.')))
    }
}

impl FromStr for DriveName {
    type Err = InvalidName;

    fn from_str(given: &str) -> Result<Self, InvalidName> {
        let Some(first) = given.chars().next() else {
            return Err(InvalidName::Empty);
        };
        let wrong = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if let Some(character) = given.chars().find(wrong) {
            return Err(InvalidName::Character(character));
        }
        if given.len() > LONGEST {
            return Err(InvalidName::TooLong(given.len()));
        }
        if !first.is_ascii_alphanumeric() {
            return Err(InvalidName::Start(first));
        }
        if given.contains("..") {
            return Err(InvalidName::Dots);
        }
        Ok(Self(given.to_owned()))
    }
}

impl fmt::Display for DriveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How often a drive has been mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of an empty volume.
    pub const EMPTY: Self = Self(0);

    /// The generation after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl FromStr for Generation {
    type Err = std::num::ParseIntError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        given.parse().map(Self)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A drive, or one generation of it: `NAME` or `NAME@N`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DriveAt {
    /// The drive.
    pub name: DriveName,
    /// The generation that was named; none if the newest is meant.
    pub generation: Option<Generation>,
}

/// The text that names neither a drive nor a generation of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDriveAt {
    /// The part before the `@` is no drive's name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The part behind the `@` is no generation.
    #[error("a generation is a number from 1, as in demo@12, not {0:?}")]
    Generation(String),
}

impl FromStr for DriveAt {
    type Err = InvalidDriveAt;

    fn from_str(given: &str) -> Result<Self, InvalidDriveAt> {
        let (name, generation) = match given.split_once('@') {
            None => (given, None),
            Some((name, number)) => match number.parse() {
                Ok(generation) if generation > Generation::EMPTY => (name, Some(generation)),
                _ => return Err(InvalidDriveAt::Generation(number.to_owned())),
            },
        };
        Ok(Self {
            name: name.parse()?,
            generation,
        })
    }
}

impl fmt::Display for DriveAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            Some(generation) => write!(f, "{}@{generation}", self.name),
            None => self.name.fmt(f),
        }
    }
}

/// The random id of one run of xdrive, written on what it makes or claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub String);

impl SessionId {
    /// A new id of 64 random bits. Fails only where the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        random_id().map(Self)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A random id of 16 hexadecimal digits, for a session, an attempt, a command or a client token.
/// Fails only where the system has no randomness.
pub fn random_id() -> Result<String, getrandom::Error> {
    getrandom::u64().map(|bits| format!("{bits:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_names_before_ids() {
        let demo: DriveName = "demo".parse().unwrap();
        let volume: VolumeId = "vol-1".parse().unwrap();
        assert_eq!(volume.drive_label(&demo), "demo's volume (vol-1)");
        assert_eq!(
            volume.drive_label("the drive"),
            "the drive's volume (vol-1)"
        );
        let instance: InstanceId = "i-1".parse().unwrap();
        assert_eq!(instance.short_label(), "its instance (i-1)");
        let snapshot: SnapshotId = "snap-1".parse().unwrap();
        assert_eq!(
            snapshot.after(format_args!("{demo}'s superseded")),
            "demo's superseded snapshot (snap-1)"
        );
    }

    #[test]
    fn good_names_are_taken_as_they_are() {
        for name in ["a", "7", "demo", "My.drive_2-x", &"x".repeat(64)] {
            assert_eq!(name.parse::<DriveName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn every_bad_name_is_refused_for_its_own_reason() {
        let cases = [
            ("", InvalidName::Empty),
            ("-demo", InvalidName::Start('-')),
            (".demo", InvalidName::Start('.')),
            ("_demo", InvalidName::Start('_')),
            ("a..b", InvalidName::Dots),
            ("a b", InvalidName::Character(' ')),
            ("a\nb", InvalidName::Character('\n')),
            ("a'b", InvalidName::Character('\'')),
            ("a\"b", InvalidName::Character('"')),
            ("a/b", InvalidName::Character('/')),
            ("é", InvalidName::Character('é')),
            ("*", InvalidName::Character('*')),
        ];
        for (name, reason) in cases {
            assert_eq!(name.parse::<DriveName>(), Err(reason), "{name:?}");
        }
        assert_eq!(
            "x".repeat(65).parse::<DriveName>(),
            Err(InvalidName::TooLong(65))
        );
    }

    #[test]
    fn a_generation_is_named_behind_an_at() {
        for given in ["demo", "demo@12"] {
            let at: DriveAt = given.parse().unwrap();
            assert_eq!(at.to_string(), given);
        }
        for given in ["demo@", "demo@0", "demo@x", "demo@1@2", "demo@-1"] {
            let refused = given.parse::<DriveAt>().unwrap_err();
            assert!(matches!(refused, InvalidDriveAt::Generation(_)), "{given}");
        }
        let refused = "a b@1".parse::<DriveAt>().unwrap_err();
        assert_eq!(refused, InvalidDriveAt::Name(InvalidName::Character(' ')));
    }

    #[test]
    fn a_fork_of_the_longest_name_is_a_name_again() {
        for name in [
            "demo".to_owned(),
            "x".repeat(64),
            format!("{}.y", "x".repeat(56)),
        ] {
            let fork = name.parse::<DriveName>().unwrap().fork(12);
            assert_eq!(fork.as_str().parse::<DriveName>(), Ok(fork.clone()));
            assert!(fork.as_str().ends_with(".fork-12"));
        }
    }
}
