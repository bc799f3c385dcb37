//! The marks on snapshots of a drive that its user deletes or renames.

use std::fmt;

use super::{DELETING, DRIVE, Identity, RENAMING};
use crate::ec2::Tags;
use crate::ids::DriveName;

/// Why a snapshot leaves its drive, which is not mounted any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leaving {
    /// The drive is deleted.
    Deleted,
    /// The drive gets this name.
    Renamed(DriveName),
}

impl Leaving {
    /// The tag that marks a snapshot as leaving; a deletion's has the session that marks it.
    #[must_use]
    pub fn tags(&self, who: &Identity) -> Tags {
        let (key, value) = match self {
            Self::Deleted => (DELETING, who.session.0.clone()),
            Self::Renamed(to) => (RENAMING, to.to_string()),
        };
        Tags::from([(key.to_owned(), value)])
    }

    /// The tags by which a snapshot that once came to its drive by a rename leaves it as a fork: under
    /// the fork's name its old mark would count again.
    #[must_use]
    pub fn none() -> Tags {
        Tags::from([(RENAMING.to_owned(), String::new())])
    }

    /// Reads the marks of a snapshot. A rename leaves them: one that has come to its new name is its
    /// drive's like any other.
    #[must_use]
    pub fn read(tags: &Tags) -> Option<Self> {
        if tags.contains_key(DELETING) {
            return Some(Self::Deleted);
        }
        let to = tags.get(RENAMING)?;
        let has_come = tags.get(DRIVE) == Some(to);
        (!has_come).then(|| to.parse().ok().map(Self::Renamed))?
    }
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("deleted"),
            Self::Renamed(to) => write!(f, "renamed to {to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;

    #[test]
    fn a_mark_counts_until_the_new_name_is_there() {
        let who = Identity::new(SessionId("s".to_owned()), "me".to_owned());
        let own = |drive: &str| Tags::from([(DRIVE.to_owned(), drive.to_owned())]);
        assert_eq!(Leaving::read(&own("old")), None);
        let renamed = Leaving::Renamed("new".parse().unwrap());
        let marked = |drive, marks: &[&Leaving]| {
            let mut tags: Tags = own(drive);
            tags.extend(marks.iter().flat_map(|mark| mark.tags(&who)));
            Leaving::read(&tags)
        };
        assert_eq!(marked("old", &[&renamed]), Some(renamed.clone()));
        assert_eq!(marked("new", &[&renamed]), None);
        let mut as_fork: Tags = own("new.fork-1");
        as_fork.extend(renamed.tags(&who));
        assert_eq!(Leaving::read(&as_fork), Some(renamed.clone()));
        as_fork.extend(Leaving::none());
        assert_eq!(Leaving::read(&as_fork), None);
        let deleted = Leaving::Deleted;
        assert_eq!(marked("new", &[&renamed, &deleted]), Some(deleted.clone()));
        assert_eq!(marked("old", &[&renamed, &deleted]), Some(deleted));
    }
}
