//! `xdrive delete`: a drive, or the save of one of its generations.

use super::{Context, Names};
use crate::failure::Failure;
use crate::ids::DriveAt;
use crate::saves::{self, Deletion};

/// `xdrive delete`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive, with all of its snapshots; or one of its generations but for the newest.
    #[arg(value_name = "NAME[@N]")]
    pub drive: DriveAt,

    /// Delete it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,
}

/// Deletes. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let DriveAt { name, generation } = args.drive;
    let what = generation.map_or(Deletion::Whole, Deletion::Of);
    super::block_on(async {
        let place = super::whole(name.clone());
        let drive = context.drive(&paths, place, args.shared).await?;
        let names = Names::find(&drive.cloud, &paths);
        let goes = matches!(what, Deletion::Whole).then_some(name);
        let code = saves::delete(drive, what).await?;
        if let (Some(names), Some(drive)) = (names, goes) {
            names.remove(&drive);
        }
        Ok(code)
    })
}
