//! `xdrive fork`: a new drive that begins as another one was.

use super::{Context, Names};
use crate::failure::Failure;
use crate::ids::{DriveAt, DriveName};
use crate::opener::Drive;
use crate::saves;

/// `xdrive fork`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive, and which of its generations; without @N the newest that is saved.
    #[arg(value_name = "NAME[@N]")]
    pub drive: DriveAt,

    /// The new drive's name.
    #[arg(value_name = "NEW")]
    pub new: DriveName,

    /// Copy it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,
}

/// Forks. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let names = Names::find(&cloud, &paths);
        let open = |name| context.opening(super::whole(name), args.shared);
        let original = Drive::open(open(args.drive.name), cloud.clone()).await?;
        let found = saves::find(&original, args.drive.generation)?;
        let drive = Drive::open(open(args.new.clone()), cloud).await?;
        let code = saves::fork(drive, found).await?;
        if let Some(names) = names {
            names.add(&args.new);
        }
        Ok(code)
    })
}
