//! The names of shares.

use std::fmt;
use std::str::FromStr;

/// The longest name, in bytes: with what is put before it, it is a token of 64 characters.
const LONGEST: usize = 48;

/// A share's name: 1–48 lower-case letters, digits and `-`, the first and the last no `-`. It is safe in a
/// path, a tag and a shell word, and the name of a resource in Kubernetes (RFC 1123, *label*).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareName(String);

/// The share's name that cannot be parsed, by its first problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShare {
    /// The empty text.
    #[error("a share's name cannot be empty")]
    Empty,
    /// A character that is not allowed.
    #[error("a share's name has lower-case letters, digits and '-' only, not {0:?}")]
    Character(char),
    /// More than 48 characters.
    #[error("a share's name has at most {LONGEST} characters, this one has {0}")]
    TooLong(usize),
    /// A `-` at either end.
    #[error("a share's name starts and ends with a letter or a digit")]
    Hyphen,
}

impl ShareName {
    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ShareName {
    type Err = InvalidShare;

    fn from_str(given: &str) -> Result<Self, InvalidShare> {
        let wrong = |c: &char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-');
        if given.is_empty() {
            return Err(InvalidShare::Empty);
        }
        if let Some(character) = given.chars().find(wrong) {
            return Err(InvalidShare::Character(character));
        }
        if given.len() > LONGEST {
            return Err(InvalidShare::TooLong(given.len()));
        }
        if given.starts_with('-') || given.ends_with('-') {
            return Err(InvalidShare::Hyphen);
        }
        Ok(Self(given.to_owned()))
    }
}

impl fmt::Display for ShareName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_resource_in_kubernetes_and_fits_a_token() {
        let longest = "a".repeat(LONGEST);
        for name in ["data", "a", "0", "set-2", longest.as_str()] {
            assert_eq!(name.parse::<ShareName>().unwrap().as_str(), name);
        }
        for (name, why) in [
            ("", InvalidShare::Empty),
            ("Data", InvalidShare::Character('D')),
            ("a/b", InvalidShare::Character('/')),
            ("a b", InvalidShare::Character(' ')),
            ("-a", InvalidShare::Hyphen),
            ("a-", InvalidShare::Hyphen),
        ] {
            assert_eq!(name.parse::<ShareName>(), Err(why), "{name}");
        }
        assert_eq!(
            format!("{longest}a").parse::<ShareName>(),
            Err(InvalidShare::TooLong(LONGEST + 1))
        );
    }
}
