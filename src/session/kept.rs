//! What the snapshots of a saved drive cost, and the command that prunes them.

use super::Session;
use crate::drive::kept::Kept;
use crate::launch::offers::dollars;

/// What they may cost a month before that is said, in US cents.
const QUIET: u64 = 100;

/// How many are proposed to be kept: the newest, and the one before it.
const KEPT: usize = 2;

impl Session {
    /// Says what the drive's snapshots cost, once that may be more than a dollar a month. Nothing is
    /// asked for it: the look that saw the drive saved brought it.
    pub(super) fn report_snapshots(&self) {
        let gc = format!("{} gc {}", self.cloud.command, self.request.drive);
        if let Some(words) = words(self.request.drive.as_str(), self.reconciler.kept(), &gc) {
            self.report.print(&words);
        }
    }
}

/// What is said, if anything; `gc` is the command that prunes.
fn words(drive: &str, kept: Kept, gc: &str) -> Option<String> {
    let (least, most) = kept.cents();
    if most <= QUIET {
        return None;
    }
    let cost = match least {
        Some(least) if least == most => format!("about {}", dollars(most)),
        Some(least) => format!("between {} and {}", dollars(least), dollars(most)),
        None => format!("at most {}", dollars(most)),
    };
    Some(match kept.count {
        1 => format!(
            "{drive}'s snapshot costs {cost} a month; it is the only one: nothing can be pruned"
        ),
        count => {
            let stay = KEPT.min(count - 1);
            let which = if stay == 1 { "one" } else { "two" };
            format!(
                "{drive}'s {count} snapshots cost {cost} a month\n  {gc} --snapshots {stay}  keeps \
                 the newest {which}"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::{Snapshot, SnapshotState, Tags};

    fn said(full_gib: &[Option<u64>]) -> Option<String> {
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
        words("demo", Kept::of(&snapshots), "xdrive gc demo")
    }

    #[test]
    fn a_dollar_a_month_is_said_with_the_command_that_leaves_less() {
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[Some(20)]), None, "a dollar is not more than one");
        assert_eq!(
            said(&[Some(24), Some(24), Some(24), Some(24)]).unwrap(),
            "demo's 4 snapshots cost between $1.20 and $4.80 a month\n  \
             xdrive gc demo --snapshots 2  keeps the newest two"
        );
        assert_eq!(
            said(&[Some(12), Some(12)]).unwrap(),
            "demo's 2 snapshots cost between $0.60 and $1.20 a month\n  \
             xdrive gc demo --snapshots 1  keeps the newest one"
        );
    }

    #[test]
    fn what_is_the_only_one_or_of_unknown_size_is_said_to_be() {
        let only = said(&[Some(24)]).unwrap();
        assert!(only.starts_with("demo's snapshot costs about $1.20 a month; it is the only one"));
        let unknown = said(&[None, Some(1)]).unwrap();
        assert!(
            unknown.starts_with("demo's 2 snapshots cost at most $1.65 a month\n"),
            "{unknown}"
        );
    }
}
