//! `xdrive fork`: a new drive that begins as another one was.

use super::{Context, key};
use crate::config::Reach;
use crate::failure::Failure;
use crate::ids::{DriveAt, DriveName};
use crate::session::{self, Original};

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
    let request = super::request(args.new.clone(), args.shared, Reach::default());
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let names = super::names(&cloud, &paths);
        let original = Original {
            of: args.drive,
            cloud: cloud.clone(),
        };
        let code = session::fork(request, cloud, key(&paths)?, original).await?;
        if let Some(names) = names {
            names.add(&args.new);
        }
        Ok(code)
    })
}
