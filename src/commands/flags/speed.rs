//! The flags that say how fast the drive's volume is.

use clap::Args;

use crate::ec2;
use crate::ec2::speed::{IOPS, THROUGHPUT, WARM};

/// How fast the drive's volume is.
#[derive(Debug, Args)]
pub struct Speed {
    /// MiB a second of the drive's volume, from its next restore on: 125 to 2000, a quarter of its
    /// IOPS at most. What is beyond 125 costs about $0.04 each a month [default: the drive's, else
    /// 125].
    #[arg(long, value_name = "MIBPS", value_parser = range(&THROUGHPUT))]
    throughput: Option<u32>,

    /// Operations a second of the drive's volume, from its next restore on: 3000 to 80000, 500 for
    /// each GiB at most. What is beyond 3000 costs about $0.005 each a month [default: the drive's,
    /// else 3000].
    #[arg(long, value_name = "N", value_parser = range(&IOPS))]
    iops: Option<u32>,

    /// MiB a second at which the volume is filled from its snapshot: 100 to 300. Else a block comes
    /// when it is first read, slowly. AWS bills it each time, by the data in the snapshot [default:
    /// the drive's, else as blocks are read].
    #[arg(long, value_name = "MIBPS", value_parser = range(&WARM))]
    warm: Option<u32>,
}

fn range(of: &std::ops::RangeInclusive<u32>) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*of.start())..=i64::from(*of.end()))
}

impl From<Speed> for ec2::Speed {
    fn from(typed: Speed) -> Self {
        Self {
            iops: typed.iops,
            throughput: typed.throughput,
            warm: typed.warm,
        }
    }
}
