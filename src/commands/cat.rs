//! `xdrive cat`: the content of files on a drive.

use std::ffi::OsString;

use super::flags::Reach;
use super::{Context, files};
use crate::failure::Failure;
use crate::report;
use crate::visit::{self, Look};

/// `xdrive cat`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The files, in one container of a drive: below /work unless they begin with / or ~.
    ///
    /// Of a drive that is not up its newest snapshot is read; with @N that of generation N.
    #[arg(
        value_name = "NAME[@N][/CONTAINER]:PATH",
        id = "place",
        required = true
    )]
    pub places: Vec<OsString>,

    /// Read although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Prints the files. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let xdrive = context.which(&paths)?.command(&paths);
    let (drive, paths_there) = files::parsed(&args.places, &format!("{xdrive} cat NAME:PATH"))?;
    let reach = super::reach(args.reach, &paths)?;
    let (place, generation) = drive.split();
    let look = Look {
        generation,
        paths: paths_there,
    };
    super::block_on(async {
        let drive = context.drive(&paths, place, args.shared).await?;
        let visitor = || super::visitor(&paths, reach);
        let write = |bytes: &[u8]| report::bytes(true, bytes);
        visit::show_files(drive, visitor, look, write).await
    })
}
