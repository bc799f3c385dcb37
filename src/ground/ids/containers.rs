//! The names of a drive's containers, and how one of them is typed.

use std::fmt;
use std::str::FromStr;

use super::{DriveAt, DriveName, Generation, InvalidName};

/// The longest name, in bytes: it is a host name and a part of Docker's name of the container.
const LONGEST: usize = 32;

/// The main container's name, where a name has to stand.
pub const MAIN: &str = "main";

/// The name of a container that a drive has besides its main one: 1–32 lower-case letters, digits and
/// `-`, the first and the last no `-`. Docker takes it in names of containers and of images, and it is
/// safe in a path, a shell word and as a host name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName(String);

/// The container name that cannot be parsed, by its first problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidContainer {
    /// The empty text.
    #[error("a container's name cannot be empty")]
    Empty,
    /// A character that is not allowed.
    #[error("a container's name has lower-case letters, digits and '-' only, not {0:?}")]
    Character(char),
    /// More than 32 characters.
    #[error("a container's name has at most {LONGEST} characters, this one has {0}")]
    TooLong(usize),
    /// A `-` at either end.
    #[error("a container's name starts and ends with a letter or a digit")]
    Hyphen,
    /// The main container's.
    #[error("{MAIN} is the drive's main container, which every drive has")]
    Main,
}

impl ContainerName {
    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContainerName {
    type Err = InvalidContainer;

    fn from_str(given: &str) -> Result<Self, InvalidContainer> {
        let wrong = |c: &char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-'));
        if given.is_empty() {
            return Err(InvalidContainer::Empty);
        }
        if let Some(character) = given.chars().find(wrong) {
            return Err(InvalidContainer::Character(character));
        }
        if given.len() > LONGEST {
            return Err(InvalidContainer::TooLong(given.len()));
        }
        if given.starts_with('-') || given.ends_with('-') {
            return Err(InvalidContainer::Hyphen);
        }
        if given == MAIN {
            return Err(InvalidContainer::Main);
        }
        Ok(Self(given.to_owned()))
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A container of a drive: `DRIVE/CONTAINER`, or `DRIVE` and `DRIVE/main` for the main one. `D` is a
/// [`DriveName`](super::DriveName), or a [`DriveAt`](super::DriveAt) where a generation may be named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DriveIn<D> {
    /// The drive.
    pub drive: D,
    /// The named container; none if the main one is meant.
    pub container: Option<ContainerName>,
}

/// The text that names neither a drive nor a container of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDriveIn<E> {
    /// The part before the `/` is no drive's name.
    #[error(transparent)]
    Drive(E),
    /// The part behind the `/` is no container's name.
    #[error(transparent)]
    Container(#[from] InvalidContainer),
}

impl<D: FromStr> FromStr for DriveIn<D> {
    type Err = InvalidDriveIn<D::Err>;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (drive, container) = match given.split_once('/') {
            None => (given, None),
            Some((drive, MAIN)) => (drive, None),
            Some((drive, container)) => (drive, Some(container.parse()?)),
        };
        Ok(Self {
            drive: drive.parse().map_err(InvalidDriveIn::Drive)?,
            container,
        })
    }
}

/// Between both names where a `/` cannot stand. No drive's name has two dots.
const DOTS: &str = "..";

impl DriveIn<DriveName> {
    /// The drive and the container as one word, as Docker and OpenSSH have it: `DRIVE` or
    /// `DRIVE..CONTAINER`.
    #[must_use]
    pub fn word(&self) -> String {
        match &self.container {
            Some(container) => format!("{}{DOTS}{container}", self.drive),
            None => self.drive.to_string(),
        }
    }

    /// Parses that word, or what people type.
    pub fn parse_word(given: &str) -> Result<Self, InvalidDriveIn<InvalidName>> {
        match given.split_once(DOTS) {
            Some((drive, container)) => format!("{drive}/{container}").parse(),
            None => given.parse(),
        }
    }
}

impl DriveIn<DriveAt> {
    /// The container of the drive, and the generation, if one is named.
    #[must_use]
    pub fn split(self) -> (DriveIn<DriveName>, Option<Generation>) {
        let place = DriveIn {
            drive: self.drive.name,
            container: self.container,
        };
        (place, self.drive.generation)
    }
}

impl<D: fmt::Display> fmt::Display for DriveIn<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.container {
            Some(container) => write!(f, "{}/{container}", self.drive),
            None => self.drive.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_name_is_refused_for_its_own_reason() {
        for name in ["a", "7", "tools", "py-3", &"x".repeat(32)] {
            assert_eq!(name.parse::<ContainerName>().unwrap().as_str(), name);
        }
        for (name, reason) in [
            ("", InvalidContainer::Empty),
            ("-a", InvalidContainer::Hyphen),
            ("a-", InvalidContainer::Hyphen),
            ("Tools", InvalidContainer::Character('T')),
            ("a.b", InvalidContainer::Character('.')),
            ("a_b", InvalidContainer::Character('_')),
            ("a/b", InvalidContainer::Character('/')),
            ("a b", InvalidContainer::Character(' ')),
            ("é", InvalidContainer::Character('é')),
            ("main", InvalidContainer::Main),
        ] {
            assert_eq!(name.parse::<ContainerName>(), Err(reason), "{name:?}");
        }
        let long = "x".repeat(33).parse::<ContainerName>();
        assert_eq!(long, Err(InvalidContainer::TooLong(33)));
    }

    #[test]
    fn a_container_is_named_behind_a_slash() {
        for given in ["demo", "demo@3", "demo/tools", "demo@3/tools"] {
            let parsed: DriveIn<DriveAt> = given.parse().unwrap();
            assert_eq!(parsed.to_string(), given);
        }
        for (given, word) in [("demo", "demo"), ("a.b/tools", "a.b..tools")] {
            let place: DriveIn<DriveName> = given.parse().unwrap();
            assert_eq!(place.word(), word);
            for typed in [given, word] {
                assert_eq!(DriveIn::parse_word(typed).as_ref(), Ok(&place));
            }
        }
        for word in ["demo..", "..tools", "demo..Tools", "a..b..c"] {
            assert!(DriveIn::parse_word(word).is_err(), "{word}");
        }
        let main: DriveIn<DriveName> = "demo/main".parse().unwrap();
        assert_eq!((main.to_string(), main.container), ("demo".into(), None));
        let refused = |given: &str| given.parse::<DriveIn<DriveName>>().unwrap_err();
        assert_eq!(
            refused("demo/"),
            InvalidDriveIn::Container(InvalidContainer::Empty)
        );
        assert_eq!(
            refused("demo/a/b"),
            InvalidDriveIn::Container(InvalidContainer::Character('/'))
        );
        assert_eq!(refused("/a"), InvalidDriveIn::Drive(InvalidName::Empty));
        assert_eq!(
            refused("demo@3/a"),
            InvalidDriveIn::Drive(InvalidName::Character('@'))
        );
    }
}
