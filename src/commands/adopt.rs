//! `xdrive adopt`: a drive of a snapshot or volume that is none yet.

use super::{Context, Names};
use crate::drive::CopySource;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::saves;

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
    super::block_on(async {
        let place = super::whole(args.name.clone());
        let drive = context.drive(&paths, place, false).await?;
        let names = Names::find(&drive.cloud, &paths);
        let code = saves::adopt(drive, args.source).await?;
        if let Some(names) = names {
            names.add(&args.name);
        }
        Ok(code)
    })
}
