//! Whether a drive's newest state is one that xdrive made of the state before: by the file system and
//! the owner that every save is tagged with.
//!
//! Whoever may tag in the account can write all of that, and is trusted as root of the drive's hosts is
//! (`xdrive help aws`, Trust). This shows what was tagged as a drive by mistake, or by somebody who did
//! not trouble to copy its tags.

use std::fmt;

use super::tags::{self, VolumeTags};
use crate::ec2::Tags;
use crate::ids::{Generation, Uuid};

/// The origin of a volume or a snapshot, as its tags record it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// The recorded generation.
    pub generation: Generation,
    /// The UUID of the file system, if that is recorded.
    pub uuid: Option<Uuid>,
    /// Whether it has an owner.
    pub has_owner: bool,
}

/// Why a newest state may be none of the drive's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Foreign {
    /// The file system, if it is recorded, is not the one that an older state records.
    FileSystem(Option<Uuid>, Uuid),
    /// The state has no owner, and an older one has.
    NoOwner,
}

impl Provenance {
    /// The origin in these tags, if they can be read and are a drive's.
    #[must_use]
    pub fn read(tags: &Tags) -> Option<Self> {
        let (generation, uuid) = match (tags::read_snapshot(tags), tags::read_volume(tags)) {
            (Ok(own), _) => (own.generation, own.uuid),
            (
                _,
                Ok(VolumeTags::Drive {
                    generation, uuid, ..
                }),
            ) => (generation, uuid),
            _ => return None,
        };
        let has_owner = tags::has_owner(tags);
        Some(Self {
            generation,
            uuid,
            has_owner,
        })
    }

    /// Why this newest state may be none of the drive's, which has those `others`.
    ///
    /// A file system may be recorded later than it was made, and is the same from then on.
    pub fn doubt(self, others: impl Iterator<Item = Self>) -> Option<Foreign> {
        let older = others.filter(|it| it.generation <= self.generation);
        let older: Vec<Self> = older.collect();
        let mut other = older.iter().filter_map(|it| it.uuid);
        if let Some(was) = other.find(|was| self.uuid != Some(*was)) {
            return Some(Foreign::FileSystem(self.uuid, was));
        }
        let is_owned = older.iter().any(|it| it.has_owner);
        (is_owned && !self.has_owner).then_some(Foreign::NoOwner)
    }

    /// Whether a chosen state with this provenance has another file system than an older one.
    #[must_use]
    pub fn differs_from(self, older: Self) -> bool {
        older.generation <= self.generation && older.uuid.is_some() && older.uuid != self.uuid
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSystem(Some(is), was) => {
                write!(f, "its file system is {is}, and the drive's was {was}")
            }
            Self::FileSystem(None, was) => write!(
                f,
                "it does not say that it has the drive's file system, {was}"
            ),
            Self::NoOwner => f.write_str("it has no owner, and the drive has one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Uuid = Uuid::from_bytes([1; 16]);
    const TWO: Uuid = Uuid::from_bytes([2; 16]);

    fn state(generation: u64, uuid: Option<Uuid>, has_owner: bool) -> Provenance {
        Provenance {
            generation: Generation(generation),
            uuid,
            has_owner,
        }
    }

    #[test]
    fn a_state_of_another_file_system_or_nobodys_is_doubted() {
        let doubt =
            |newest: Provenance, others: &[Provenance]| newest.doubt(others.iter().copied());
        let before = state(3, Some(ONE), true);
        assert_eq!(doubt(state(4, Some(ONE), true), &[before]), None);
        for other in [Some(TWO), None] {
            let expected = Some(Foreign::FileSystem(other, ONE));
            assert_eq!(doubt(state(4, other, true), &[before]), expected);
            // Nor does a second one of the same kind hide it, or a copy of the same generation.
            let again = [before, state(4, other, true)];
            assert_eq!(doubt(state(5, other, true), &again), expected);
            assert_eq!(doubt(state(3, other, true), &[before]), expected);
        }
        let nobodys = state(4, Some(ONE), false);
        assert_eq!(doubt(nobodys, &[before]), Some(Foreign::NoOwner));
        // What was never recorded proves nothing, and newer states are not those before.
        assert_eq!(doubt(before, &[state(2, None, false)]), None);
        assert_eq!(doubt(before, &[state(4, Some(TWO), true)]), None);
        assert_eq!(doubt(nobodys, &[state(3, Some(ONE), false)]), None);
    }
}
