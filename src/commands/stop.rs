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
    let mut request = super::request(args.drive, args.shared, reach);
    request.options.config.json = args.json;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let (names, drive) = (super::names(&cloud, &paths), request.drive.clone());
        let code = session::stop(request, cloud, key(&paths)?).await?;
        if let Some(names) = names {
            names.add(&drive);
        }
        Ok(code)
    })
}
