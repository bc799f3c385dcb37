//! `xdrive rename`: another name for a drive.

use super::{Context, key};
use crate::config::Reach;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::session;

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
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let request = super::request(args.drive, args.shared, Reach::default());
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let (names, drive) = (super::names(&cloud, &paths), request.drive.clone());
        let code = session::rename(request, cloud, key(&paths)?, args.to.clone()).await?;
        if let Some(names) = names {
            names.remove(&drive);
            names.add(&args.to);
        }
        Ok(code)
    })
}
