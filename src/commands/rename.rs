//! `xdrive rename`: another name for a drive.

use anyhow::anyhow;

use super::{Context, Names};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::saves;

/// `xdrive rename`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive, which must be saved.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// Its new name, which no drive may have.
    #[arg(value_name = "NEW")]
    pub to: DriveName,

    /// Rename it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,
}

/// Renames. Returns the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    if args.drive == args.to {
        let error = anyhow!("{} has that name", args.to);
        return Err(Failure::new(Exit::Usage, error).hint("the second name is the new one"));
    }
    super::block_on(async {
        let place = super::whole(args.drive.clone());
        let drive = context.drive(&paths, place, args.shared).await?;
        let names = Names::find(&drive.cloud, &paths);
        let code = saves::rename(drive, args.to.clone()).await?;
        if let Some(names) = names {
            names.remove(&args.drive);
            names.add(&args.to);
        }
        Ok(code)
    })
}
