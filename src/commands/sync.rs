//! `xdrive sync`: a folder of this computer, on a drive.

use std::ffi::OsString;

use anyhow::anyhow;

use super::Context;
use super::flags::Reach;
use crate::config::SUFFIX;
use crate::failure::{Exit, Failure};
use crate::transfer::place::{InvalidPlaces, Place};
use crate::transfer::{Copying, Order, Sync};
use crate::visit;

/// `xdrive sync`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and any of them goes with any other"
)]
pub struct Args {
    /// The folder here.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folder: OsString,

    /// The folder on a drive; it is made.
    ///
    /// Its path is below /work unless it begins with / or ~. NAME/CONTAINER:DST is in that container.
    #[arg(value_name = "NAME:DST")]
    pub place: OsString,

    /// Go on: send what changes, until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Delete there what is not here.
    ///
    /// But nothing that git would ignore here, such as what was built there.
    #[arg(long)]
    pub delete: bool,

    /// Send also files with the same size and time there.
    #[arg(long)]
    pub ignore_times: bool,

    /// Send although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Synchronizes. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let xdrive = context.which(&paths)?.command(&paths);
    let usage = |error: anyhow::Error| {
        Failure::new(Exit::Usage, error).hint(format!(
            "{xdrive} sync DIR NAME:DST; {xdrive} cp copies from a drive"
        ))
    };
    let parse = |place: &OsString| Place::parse(place, SUFFIX).map_err(|it| usage(it.into()));
    let (folder, drive, to) = match (parse(&args.folder)?, parse(&args.place)?) {
        (Place::Here(folder), Place::There(drive, to)) if drive.drive.generation.is_none() => {
            (folder, drive.split().0, to)
        }
        (Place::Here(_), Place::There(drive, _)) => {
            return Err(usage(InvalidPlaces::Saved(drive).into()));
        }
        (Place::There(..), _) => {
            let folder = args.folder.display();
            return Err(usage(anyhow!("{folder} is no folder on this computer")));
        }
        (_, Place::Here(_)) => {
            let place = args.place.display();
            return Err(usage(anyhow!("{place} names no drive")));
        }
    };
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(usage(anyhow!("{folder} is no folder on this computer")));
    }
    let reach = super::reach(args.reach, &paths)?;
    let sync = Sync {
        deletes: args.delete,
    };
    let order = Order::Sync { folder, to, sync };
    let how = Copying {
        verb: "sync",
        ignores_times: args.ignore_times,
        watches: args.watch,
    };
    super::block_on(async {
        let drive = context.drive(&paths, drive, args.shared).await?;
        let visitor = || super::visitor(&paths, reach);
        visit::copy(drive, visitor, None, order, how).await
    })
}
