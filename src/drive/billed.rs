//! A resource that is still billed, as scripts and people read it.

use std::fmt;

use serde::Serialize;

use super::stuck::{Left, Thing};
use crate::ec2::{GibiBytes, Price, Speed, StoragePrices};

/// Something that is still billed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Billed {
    /// Kind of the resource.
    #[cfg_attr(test, schemars(extend("enum" = ["instance", "volume", "snapshot"])))]
    kind: &'static str,
    /// Id in EC2.
    id: String,
    /// Size; of a snapshot that of its volume. An instance has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    gib: Option<GibiBytes>,
    /// US dollars a month, about; of a snapshot at most. An instance is billed by the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    dollars_a_month: Option<f64>,
}

impl Billed {
    /// The resources that are left, each with its cost by these prices.
    #[must_use]
    pub fn all(left: &Left, prices: StoragePrices) -> Vec<Self> {
        let billed = left.0.iter().map(|thing| Self::new(thing, prices));
        billed.collect()
    }

    /// The resource with its cost, by these prices. A speed that was bought is not among it.
    fn new(thing: &Thing, prices: StoragePrices) -> Self {
        let (kind, id, gib, cost) = match thing {
            Thing::Instance(id) => ("instance", id.to_string(), None, None),
            Thing::Volume(id, size) => {
                let cost = prices.volume(*size, Speed::default());
                ("volume", id.to_string(), Some(*size), Some(cost))
            }
            Thing::Snapshot(id, size) => {
                let cost = prices.snapshot(*size);
                ("snapshot", id.to_string(), Some(*size), Some(cost))
            }
        };
        Self {
            kind,
            id,
            gib,
            dollars_a_month: cost.map(Price::to_a_cent),
        }
    }
}

impl fmt::Display for Billed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, gib, .. } = self;
        write!(f, "{kind} {id}")?;
        match gib {
            None => f.write_str(", billed by the second")?,
            Some(gib) if *kind == "snapshot" => write!(f, ", at most {gib} GiB")?,
            Some(gib) => write!(f, ", {gib} GiB")?,
        }
        match self.dollars_a_month {
            Some(dollars) => write!(f, ", about ${dollars:.2} a month"),
            None => Ok(()),
        }
    }
}
