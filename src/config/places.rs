//! The parts of the host that the container has, in the configuration file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::reach::Several;
use crate::host::places::{InvalidMount, Mount};

/// Reads one mount of the configuration, or several; an empty list is none.
pub(super) fn mounts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Mount>>, D::Error> {
    let given = Vec::from(Several::<String>::deserialize(from)?).into_iter();
    let parsed = given.map(|text| {
        let parsed = text.parse();
        parsed.map_err(|why: InvalidMount| D::Error::custom(format!("{text:?}: {why}")))
    });
    parsed.collect::<Result<_, _>>().map(Some)
}
