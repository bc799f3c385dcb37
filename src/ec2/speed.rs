//! A volume's speed beyond gp3's baseline.
//!
//! The limits are those of gp3 (EBS user guide, *General Purpose SSD volumes*; EC2 API reference,
//! `CreateVolume`), raised in 2025 from 16,000 IOPS and 1,000 MiB/s.

use std::ops::RangeInclusive;

use super::GibiBytes;

/// Operations a second that a gp3 volume can be given.
pub const IOPS: RangeInclusive<u32> = 3_000..=80_000;
/// MiB a second that a gp3 volume can be given.
pub const THROUGHPUT: RangeInclusive<u32> = 125..=2_000;
/// MiB a second at which a volume can be filled from its snapshot.
pub const WARM: RangeInclusive<u32> = 100..=300;

/// Operations a second for each GiB, at most.
const IOPS_A_GIB: u32 = 500;
/// Operations a second that each MiB a second takes.
const IOPS_A_MIB: u32 = 4;

/// A volume's speed; `None` is EC2's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Speed {
    /// Operations a second.
    pub iops: Option<u32>,
    /// MiB a second.
    pub throughput: Option<u32>,
    /// MiB a second at which it is filled from its snapshot (`VolumeInitializationRate`).
    pub warm: Option<u32>,
}

impl Speed {
    /// Merges two speeds: a value that is missing here is taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            iops: self.iops.or(other.iops),
            throughput: self.throughput.or(other.throughput),
            warm: self.warm.or(other.warm),
        }
    }

    /// Why a volume of `size` cannot be as fast, and what helps.
    pub fn check_for(self, size: GibiBytes) -> Result<(), (String, String)> {
        let iops = self.iops.unwrap_or(*IOPS.start());
        let most = IOPS_A_GIB.saturating_mul(size).max(*IOPS.start());
        if iops > most {
            let size_for = iops.div_ceil(IOPS_A_GIB);
            return Err((
                format!(
                    "a volume of {size} GiB has {most} IOPS at most ({IOPS_A_GIB} for each GiB), \
                     and not {iops}"
                ),
                format!("--iops {most}, or --size {size_for}"),
            ));
        }
        let throughput = self.throughput.unwrap_or(*THROUGHPUT.start());
        if throughput > iops / IOPS_A_MIB {
            return Err((
                format!(
                    "{throughput} MiB/s take {} IOPS, and the volume has {iops}",
                    throughput * IOPS_A_MIB
                ),
                format!(
                    "--iops {}, or --throughput {}",
                    throughput * IOPS_A_MIB,
                    iops / IOPS_A_MIB
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A bought speed.
    pub(crate) fn speed(iops: u32, throughput: u32) -> Speed {
        Speed {
            iops: Some(iops),
            throughput: Some(throughput),
            warm: None,
        }
    }

    #[test]
    fn a_volume_is_as_fast_as_its_size_and_its_operations_allow() {
        assert_eq!(Speed::default().check_for(1), Ok(()));
        assert_eq!(speed(16_000, 1_000).check_for(32), Ok(()));
        assert_eq!(speed(80_000, 2_000).check_for(160), Ok(()));
        let (why, hint) = speed(80_000, 125).check_for(159).unwrap_err();
        assert!(why.contains("79500 IOPS at most"), "{why}");
        assert_eq!(hint, "--iops 79500, or --size 160");
        let (_, hint) = speed(3_000, 751).check_for(32).unwrap_err();
        assert_eq!(hint, "--iops 3004, or --throughput 750");
        assert_eq!(speed(3_000, 750).check_for(1), Ok(()));
    }
}
