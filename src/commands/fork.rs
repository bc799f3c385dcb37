//! `xdrive fork`: a new drive that begins as another one was, or is.

use anyhow::anyhow;

use super::flags::Reach;
use super::{Context, Names};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveName};
use crate::opener::Drive;
use crate::saves::{self, Found};
use crate::visit::{self, Visitor};

/// `xdrive fork`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive, and which of its generations; without @N the newest that is saved.
    #[arg(value_name = "NAME[@N]")]
    pub drive: DriveAt,

    /// The new drive's name.
    #[arg(value_name = "NEW")]
    pub new: DriveName,

    /// Copy it as it is now, while it is up.
    ///
    /// Its host writes what waits to be written, and EC2 takes a snapshot of the volume, which is the
    /// new drive's. What runs goes on, and what it has in its memory alone is not copied.
    #[arg(long)]
    pub now: bool,

    /// Copy it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Forks. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    if args.now && args.drive.generation.is_some() {
        let error = anyhow!(
            "{} is a generation that is saved, and --now is what is not",
            args.drive
        );
        let hint = format!("{} --now, without @N", args.drive.name);
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let names = Names::find(&cloud, &paths);
        let open = |name| context.opening(super::whole(name), args.shared);
        let original = Drive::open(open(args.drive.name), cloud.clone()).await?;
        let found = if args.now {
            let reach = super::reach(args.reach, &paths)?;
            find_now(original, super::visitor(&paths, reach)?).await?
        } else {
            saves::find(&original, args.drive.generation)?
        };
        let drive = Drive::open(open(args.new.clone()), cloud).await?;
        let code = saves::fork(drive, found).await?;
        if let Some(names) = names {
            names.add(&args.new);
        }
        Ok(code)
    })
}

/// The present state of a drive: that of its volume, or of its last save if it is not up.
async fn find_now(original: Drive, visitor: Visitor) -> Result<Found, Failure> {
    if original.facts.host.is_some() {
        let (original, volume) = visit::sync(original, visitor).await?;
        return saves::find_now(&original, &volume);
    }
    if original.facts.volumes_left().next().is_some() {
        let (name, command) = (&original.name, &original.cloud.command);
        let error = anyhow!("{name} is neither up nor saved: a volume has its newest state");
        let hint = format!("{command} stop {name} saves it");
        return Err(Failure::new(Exit::TryAgain, error).hint(hint));
    }
    saves::find(&original, None)
}
