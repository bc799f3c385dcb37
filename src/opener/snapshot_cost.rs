//! The cost of a saved drive's snapshots a month, and the command that prunes them.

use super::drive::Drive;
use crate::drive::kept::Kept;
use crate::ec2::StoragePrices;
use crate::launch::cost::dollars;

/// The cost a month above which it is printed, in US cents.
const UNREPORTED: u64 = 100;

/// How many snapshots the proposed command keeps: the newest, and the one before it.
const PROPOSED: usize = 2;

impl Drive {
    /// Prints the cost of the drive's snapshots, which the last sweep listed, if it may be more than a
    /// dollar a month.
    pub(super) fn report_snapshot_cost(&self, kept: Kept) {
        let prices = self.cloud.ec2.known_storage_prices();
        let gc = format!("{} gc {}", self.cloud.command, self.name);
        if let Some(line) = line(self.name.as_str(), kept, prices, &gc) {
            self.report.print(&line);
        }
    }
}

/// Whether a line of its own says what they cost.
pub(super) fn is_reported(kept: Kept, prices: StoragePrices) -> bool {
    kept.cost(prices).1.cents() > UNREPORTED
}

/// The cost of a month in words, such as `between $0.60 and $1.20`; none if nothing is kept.
pub(super) fn cost_a_month(kept: Kept, prices: StoragePrices) -> Option<String> {
    let (least, most) = kept.cost(prices);
    match least {
        _ if kept.count == 0 => None,
        _ if most.cents() == 0 => Some("less than $0.01".to_owned()),
        Some(least) if least.cents() == most.cents() => Some(format!("about {}", dollars(most))),
        Some(least) => Some(format!("between {} and {}", dollars(least), dollars(most))),
        None => Some(format!("at most {}", dollars(most))),
    }
}

/// The line to print, if any; `gc` begins the command that prunes.
fn line(drive: &str, kept: Kept, prices: StoragePrices, gc: &str) -> Option<String> {
    if !is_reported(kept, prices) {
        return None;
    }
    let cost = cost_a_month(kept, prices)?;
    Some(match kept.count {
        1 => format!(
            "{drive}'s snapshot costs {cost} a month; it is the only one: nothing can be pruned"
        ),
        count => {
            let stay = PROPOSED.min(count - 1);
            let which = if stay == 1 { "one" } else { "two" };
            format!(
                "{drive}'s {count} snapshots cost {cost} a month\n  {gc} --keep-last {stay}  keeps \
                 the newest {which}"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::{Snapshot, SnapshotState, Tags};

    fn line_of(full_gib: &[Option<u64>]) -> Option<String> {
        let snapshots: Vec<Snapshot> = full_gib
            .iter()
            .map(|gib| Snapshot {
                id: "snap-1".parse().unwrap(),
                state: SnapshotState::Completed,
                volume: None,
                size: 32,
                full_size: gib.map(|gib| gib << 30),
                started: jiff::Timestamp::UNIX_EPOCH,
                message: String::new(),
                tags: Tags::new(),
            })
            .collect();
        line(
            "demo",
            Kept::count(&snapshots),
            StoragePrices::default(),
            "xdrive gc demo",
        )
    }

    #[test]
    fn more_than_a_dollar_a_month_is_printed_with_the_command_that_prunes() {
        assert_eq!(line_of(&[]), None);
        assert_eq!(line_of(&[Some(20)]), None, "a dollar is not more than one");
        assert_eq!(
            line_of(&[Some(24), Some(24), Some(24), Some(24)]).unwrap(),
            "demo's 4 snapshots cost between $1.20 and $4.80 a month\n  \
             xdrive gc demo --keep-last 2  keeps the newest two"
        );
        assert_eq!(
            line_of(&[Some(12), Some(12)]).unwrap(),
            "demo's 2 snapshots cost between $0.60 and $1.20 a month\n  \
             xdrive gc demo --keep-last 1  keeps the newest one"
        );
    }

    #[test]
    fn an_only_snapshot_and_unknown_sizes_have_lines_of_their_own() {
        let only = line_of(&[Some(24)]).unwrap();
        assert!(only.starts_with("demo's snapshot costs about $1.20 a month; it is the only one"));
        let unknown = line_of(&[None, Some(1)]).unwrap();
        assert!(
            unknown.starts_with("demo's 2 snapshots cost at most $1.65 a month\n"),
            "{unknown}"
        );
    }
}
