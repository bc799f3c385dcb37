//! The cost of a drive's snapshots: at least, and at most.
//!
//! A block that several snapshots have is billed once. EC2 reports the size of all blocks of a
//! snapshot (`FullSnapshotSizeInBytes`), and not which of them others share. So at least the
//! largest is billed, and at most the sum. The exact size takes a call for each 5 GiB of each
//! snapshot (`ListChangedBlocks`), too long for a save to wait.

use crate::ec2::{Price, Snapshot, SnapshotState, StoragePrices};

/// The snapshots of a drive, by the last sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// How many are completed.
    pub count: usize,
    /// The least number of bytes that are billed; none where EC2 does not report the size of a
    /// snapshot.
    least: Option<u64>,
    /// The largest number of bytes that are billed.
    most: u64,
}

impl Kept {
    /// Counts the completed ones among `snapshots`.
    #[must_use]
    pub fn count<'a>(snapshots: impl IntoIterator<Item = &'a Snapshot>) -> Self {
        let mut kept = Self {
            least: Some(0),
            ..Self::default()
        };
        for snapshot in snapshots {
            kept.add(snapshot);
        }
        kept
    }

    /// Counts one more, if it is completed.
    pub fn add(&mut self, snapshot: &Snapshot) {
        if snapshot.state != SnapshotState::Completed {
            return;
        }
        let known = snapshot.full_size;
        self.count += 1;
        self.least = self.least.and_then(|least| Some(least.max(known?)));
        // No more than the whole volume.
        let most = known.unwrap_or(u64::from(snapshot.size) << 30);
        self.most = self.most.saturating_add(most);
    }

    /// The bytes that are billed: the least, where that is known, and the most.
    #[must_use]
    pub fn bytes(&self) -> (Option<u64>, u64) {
        (self.least, self.most)
    }

    /// The snapshots' cost a month by these prices: the least, where that is known, and the most.
    #[must_use]
    pub fn cost(&self, prices: StoragePrices) -> (Option<Price>, Price) {
        let cost = |bytes| prices.stored(bytes);
        (self.least.map(cost), cost(self.most))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ec2::Tags;

    fn snapshot(state: SnapshotState, full_gib: Option<u64>) -> Snapshot {
        Snapshot {
            id: "snap-1".parse().unwrap(),
            state,
            volume: None,
            size: 32,
            full_size: full_gib.map(|gib| gib << 30),
            started: Timestamp::UNIX_EPOCH,
            message: String::new(),
            tags: Tags::new(),
        }
    }

    fn cents(kept: Kept) -> (Option<u64>, u64) {
        let (least, most) = kept.cost(StoragePrices::default());
        (least.map(Price::cents), most.cents())
    }

    #[test]
    fn the_largest_is_billed_at_least_and_all_together_at_most() {
        let done = |gib| snapshot(SnapshotState::Completed, Some(gib));
        let pending = snapshot(SnapshotState::Pending, None);
        let failed = snapshot(SnapshotState::Error, None);
        let kept = Kept::count(&[done(10), done(24), pending, failed, done(20)]);
        assert_eq!((kept.count, cents(kept)), (3, (Some(120), 270)));
        assert_eq!(cents(Kept::count(&[done(20)])), (Some(100), 100));
        assert_eq!(cents(Kept::count(&[])), (Some(0), 0));
    }

    #[test]
    fn one_of_unknown_size_is_as_large_as_its_volume_at_most() {
        let unknown = snapshot(SnapshotState::Completed, None);
        let known = snapshot(SnapshotState::Completed, Some(10));
        let kept = Kept::count(&[known, unknown]);
        assert_eq!(cents(kept), (None, 50 + 160));
    }
}
