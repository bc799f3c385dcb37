//! The document of `cost --json`.

use jiff::civil::Date;
use serde::Serialize;

use crate::launch::ledger::{Bounds, Costs, Generations, Kind, Ledger, Period, Unknown};

/// The cost of drives, as `cost --json` prints it (`src/cli/schemas/cost.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Document {
    /// Midnight that it begins with, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    since: String,
    /// Now, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    until: String,
    /// Region that the drives are in.
    region: String,
    /// US dollars for all drives.
    dollars: Dollars,
    /// Drives, by name.
    drives: Vec<Spent>,
}

/// US dollars between two bounds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Dollars {
    /// So many at least.
    least: f64,
    /// So many at most; null where something is not known.
    most: Option<f64>,
}

/// US dollars by what they are for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ByKind {
    /// Instances, at the price of spot in effect at each second.
    spot: Dollars,
    /// Instances, on demand.
    on_demand: Dollars,
    /// Public addresses, as if each instance that is gone had one.
    addresses: Dollars,
    /// The drive's volumes, and root disks of instances.
    disks: Dollars,
    /// Snapshots that are still there: the largest of them alone, and all.
    snapshots: Dollars,
}

/// The cost of a drive.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Spent {
    /// Name of the drive.
    drive: String,
    /// US dollars for all of it.
    dollars: Dollars,
    /// By what they are for.
    by_kind: ByKind,
    /// Days on which it has cost anything, the first of them first.
    days: Vec<Day>,
    /// Gaps in what is known.
    unknown: Vec<Gap>,
}

/// The cost of a drive on a day.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Day {
    /// Day in UTC.
    #[cfg_attr(test, schemars(extend("format" = "date")))]
    date: String,
    /// US dollars for all of it.
    dollars: Dollars,
    /// By what they are for.
    by_kind: ByKind,
}

/// Something that is not known of what a drive has cost.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Gap {
    /// `deleted`: no snapshot is left of these generations; `unrecorded`: no instance is recorded of them; `endless`:
    /// only checkpoints are left of them; `late`: their hosts were gone before the save, up to which they are counted
    /// at most; `unreadable`: tags cannot be read; `price`: no price is known.
    #[cfg_attr(test, schemars(extend("enum" = ["deleted", "unrecorded", "endless", "late", "unreadable", "price"])))]
    why: &'static str,
    /// In words.
    words: String,
    /// Generations that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    generations: Vec<Range>,
}

/// Generations, one after the other.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Range {
    first: u64,
    last: u64,
}

impl Document {
    pub(super) fn new(drives: &[(String, Ledger)], period: Period, region: &str) -> Self {
        let all: Bounds = drives.iter().map(|(_, ledger)| ledger.sum()).sum();
        let drives = drives.iter().map(|(drive, ledger)| Spent {
            drive: drive.clone(),
            dollars: ledger.sum().into(),
            by_kind: (&ledger.costs()).into(),
            days: ledger.days.iter().filter_map(Day::new).collect(),
            unknown: ledger.unknown.iter().map(Gap::from).collect(),
        });
        Self {
            since: format!("{:.0}", period.start),
            until: format!("{:.0}", period.end),
            region: region.to_owned(),
            dollars: all.into(),
            drives: drives.collect(),
        }
    }
}

impl From<Bounds> for Dollars {
    fn from(bounds: Bounds) -> Self {
        Self {
            least: bounds.least,
            most: bounds.known_most(),
        }
    }
}

impl From<&Costs> for ByKind {
    fn from(costs: &Costs) -> Self {
        let of = |kind| Dollars::from(costs[kind]);
        Self {
            spot: of(Kind::Spot),
            on_demand: of(Kind::OnDemand),
            addresses: of(Kind::Addresses),
            disks: of(Kind::Disks),
            snapshots: of(Kind::Snapshots),
        }
    }
}

impl Day {
    fn new((day, costs): &(Date, Costs)) -> Option<Self> {
        (*costs != Costs::default()).then(|| Self {
            date: day.to_string(),
            dollars: costs.sum().into(),
            by_kind: costs.into(),
        })
    }
}

impl From<&Unknown> for Gap {
    fn from(unknown: &Unknown) -> Self {
        let ranges = unknown.generations().map(Generations::ranges);
        let ranges = ranges.unwrap_or_default().iter();
        Self {
            why: unknown.as_str(),
            words: unknown.to_string(),
            generations: ranges.map(|&(first, last)| Range { first, last }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_committed_schema() {
        let (title, description) = (
            "xdrive cost --json",
            "What drives have cost, by day and kind, as far as EC2 lists it.",
        );
        crate::report::schema::check::<Document>("cost", title, description);
    }
}
