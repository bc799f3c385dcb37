//! The parts of the host that the container has, in the configuration file.

use std::fmt::Display;
use std::str::FromStr;

use serde::Deserializer;
use serde::de::Error as _;

use super::reach;
use crate::host::places::Mount;
use crate::host::shares::Shared;

/// Reads one mount of the configuration, or several; an empty list is none.
pub(super) fn mounts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Mount>>, D::Error> {
    parsed(from)
}

/// Reads one share of the configuration, or several; an empty list is none.
pub(super) fn shares<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Shared>>, D::Error> {
    parsed(from)
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let given: Vec<String> = reach::several(from)?;
    let parsed = given.into_iter().map(|text| {
        let parsed = text.parse();
        parsed.map_err(|why: T::Err| D::Error::custom(format!("{text:?}: {why}")))
    });
    parsed.collect::<Result<_, _>>().map(Some)
}
