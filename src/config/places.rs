//! The parts of the host that the container has, in the configuration file.

use serde::Deserializer;
use serde::de::Error as _;

use super::reach;
use crate::host::places::{InvalidMount, Mount};

/// Reads one mount of the configuration, or several; an empty list is none.
pub(super) fn mounts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Mount>>, D::Error> {
    let given: Vec<String> = reach::several(from)?;
    let parsed = given.into_iter().map(|text| {
        let parsed = text.parse();
        parsed.map_err(|why: InvalidMount| D::Error::custom(format!("{text:?}: {why}")))
    });
    parsed.collect::<Result<_, _>>().map(Some)
}
