//! The flags that say how fast the drive's volume is.

use clap::Args;

use crate::config::quantity;
use crate::ec2;

/// How fast the drive's volume is.
#[derive(Debug, Args)]
#[command(next_help_heading = "The drive")]
pub struct Speed {
    /// MiB a second of the drive's volume: 125 to 2000.
    ///
    /// From its next restore on; a quarter of its IOPS at most. What is beyond 125 costs about $0.04
    /// each a month [default: the drive's, else 125].
    #[arg(
        long,
        value_name = "MIBPS",
        value_parser = quantity::throughput,
        hide_short_help = true
    )]
    throughput: Option<u32>,

    /// Operations a second of the drive's volume: 3000 to 80000.
    ///
    /// From its next restore on; 500 for each GiB at most. What is beyond 3000 costs about $0.005
    /// each a month [default: the drive's, else 3000].
    #[arg(
        long,
        value_name = "N",
        value_parser = quantity::iops,
        hide_short_help = true
    )]
    iops: Option<u32>,

    /// MiB a second at which the volume is filled: 100 to 300.
    ///
    /// From its snapshot. Without it each block is fetched at its first read, slowly. AWS bills
    /// each fill by the data in the snapshot [default: the drive's, else as blocks are read].
    #[arg(
        long,
        value_name = "MIBPS",
        value_parser = quantity::warm,
        hide_short_help = true
    )]
    warm: Option<u32>,
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
