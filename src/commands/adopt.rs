//! `xdrive adopt`: a drive of a snapshot or volume that is none yet.

use super::{Context, key};
use crate::config::Reach;
use crate::drive::CopySource;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::session;

/// `xdrive adopt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The snapshot or the volume: an ext4 on the whole disk. A volume must not be in use.
    #[arg(value_name = "SNAPSHOT|VOLUME")]
    pub source: CopySource,

    /// The drive's name.
    #[arg(value_name = "NAME")]
    pub name: DriveName,
}

/// Adopts. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let request = super::request(args.name.clone(), false, Reach::default());
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let names = super::names(&cloud, &paths);
        let code = session::adopt(request, cloud, key(&paths)?, args.source).await?;
        if let Some(names) = names {
            names.add(&args.name);
        }
        Ok(code)
    })
}
