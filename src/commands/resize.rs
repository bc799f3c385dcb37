//! `xdrive resize`: a larger or faster drive.

use super::Context;
use super::flags::Reach;
use crate::config::quantity::{Iops, Size, Throughput};
use crate::ec2::Speed;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::opener::{Drive, Opening};
use crate::visit;

/// `xdrive resize`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive to make larger.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// New size in GiB, which is never smaller.
    #[arg(value_name = "GIB", required_unless_present_any = ["throughput", "iops"])]
    pub size: Option<Size>,

    /// MiB a second of the volume from now on.
    #[arg(long, value_name = "MIB")]
    pub throughput: Option<Throughput>,

    /// Operations a second of the volume from now on.
    #[arg(long, value_name = "N")]
    pub iops: Option<Iops>,

    /// Change it although another caller has or had it.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Changes the drive. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    let speed = Speed {
        iops: args.iops.map(|it| it.0),
        throughput: args.throughput.map(|it| it.0),
        warm: None,
    };
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let opening = Opening {
            shared: args.shared,
            ..Opening::new(super::whole(args.drive))
        };
        let drive = Drive::open(opening, cloud).await?;
        let visitor = super::visitor(&paths, reach)?;
        visit::resize(drive, visitor, args.size.map(|it| it.0), speed).await
    })
}
