//! `xdrive stop`: saves a drive from anywhere.

use super::flags::Reach;
use super::{Context, key};
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::session;

/// `xdrive stop`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive to save.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// Save it although another caller has or had it.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Saves the drive. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        session::stop(args.drive, args.shared, reach, cloud, key(&paths)?).await
    })
}
