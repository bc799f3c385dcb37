//! `xdrive logs`: what a run printed.

use std::time::Duration;

use super::Context;
use super::flags::Reach;
use crate::config::quantity;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::report;
use crate::visit::{self, Wanted};

/// `xdrive logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// The run: the beginning of its id [default: the latest].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,

    /// Go on until the run has ended.
    #[arg(short, long)]
    pub follow: bool,

    /// Only what came in the last time, such as 10m.
    ///
    /// To a few seconds; all of a run on record that ended in that time [default: all that is kept].
    #[arg(long, value_name = "TIME", value_parser = quantity::since)]
    pub since: Option<Duration>,

    /// Look although the drive is another caller's.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Shows the output. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    let wanted = Wanted {
        run: args.run,
        since: args.since,
        follows: args.follow,
    };
    super::block_on(async {
        let place = super::whole(args.drive);
        let drive = context.drive(&paths, place, args.shared).await?;
        let visitor = || super::visitor(&paths, reach);
        visit::logs(drive, visitor, wanted, report::bytes).await
    })
}
