//! Prices of gp3 volumes and standard snapshots in a region, by AWS Price List; where that is not to be had, those of
//! us-east-1 (<https://aws.amazon.com/ebs/pricing/>), from which others differ by up to a half.

use super::speed::{IOPS, THROUGHPUT};
use super::{GibiBytes, Price, Speed};

/// Prices of storage, a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoragePrices {
    /// A GiB of a volume.
    pub(super) volume: Price,
    /// An operation a second beyond those that each volume has.
    pub(super) iops: Price,
    /// A GiB a second beyond the throughput that each volume has.
    pub(super) throughput: Price,
    /// A GiB in snapshots.
    pub(super) snapshot: Price,
}

/// The prices of us-east-1.
impl Default for StoragePrices {
    fn default() -> Self {
        Self {
            volume: Price::from_millionths(80_000),
            iops: Price::from_millionths(5_000),
            throughput: Price::from_millionths(40_960_000),
            snapshot: Price::from_millionths(50_000),
        }
    }
}

impl StoragePrices {
    /// A volume of `size` and `speed` a month. The initialization rate is paid for once, by the data in the snapshot.
    #[must_use]
    pub fn volume(self, size: GibiBytes, speed: Speed) -> Price {
        let beyond =
            |value: Option<u32>, free: u32| u64::from(value.unwrap_or(0).saturating_sub(free));
        let iops = self.iops.times(beyond(speed.iops, *IOPS.start()));
        let throughput = beyond(speed.throughput, *THROUGHPUT.start());
        let throughput = self.throughput.part(throughput, 1024);
        self.volume.times(u64::from(size)) + iops + throughput
    }

    /// A snapshot of a volume of `size` a month, at most.
    #[must_use]
    pub fn snapshot(self, size: GibiBytes) -> Price {
        self.snapshot.times(u64::from(size))
    }

    /// So many bytes in snapshots, a month.
    #[must_use]
    pub fn stored(self, bytes: u64) -> Price {
        self.snapshot.part(bytes >> 20, 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::super::speed::tests::speed;
    use super::*;

    #[test]
    fn only_what_is_bought_of_a_volumes_speed_costs() {
        let cost = |size, speed| StoragePrices::default().volume(size, speed).cents();
        assert_eq!(cost(100, Speed::default()), 800);
        assert_eq!(cost(100, speed(3_000, 125)), 800);
        assert_eq!(cost(100, speed(4_000, 500)), 800 + 500 + 1_500);
    }
}
