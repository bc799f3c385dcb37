//! `xdrive freeze`: saves a drive with what runs on it.

use super::Context;
use super::flags::Reach;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::opener::{Drive, Opening};
use crate::visit::{self, Manner};

/// `xdrive freeze`.
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

    /// One JSON document instead of text.
    ///
    /// A failure is one line of JSON at the end of standard error.
    #[arg(long)]
    pub json: bool,

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
        let opening = Opening {
            shared: args.shared,
            json: args.json,
            ..Opening::new(super::whole(args.drive))
        };
        let drive = Drive::open(opening, cloud).await?;
        visit::stop(drive, super::visitor(&paths, reach)?, Manner::Freeze).await
    })
}
