//! `xdrive copy`: a drive in another region.

use anyhow::anyhow;

use super::Context;
use crate::cloud::{Cloud, Which};
use crate::ec2::Account;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveName};
use crate::opener::Drive;
use crate::saves;

/// `xdrive copy`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive, and which of its generations; without @N the newest that is saved.
    #[arg(value_name = "NAME[@N]")]
    pub drive: DriveAt,

    /// Its name in the region of --region [default: the same].
    #[arg(value_name = "NEW")]
    pub new: Option<DriveName>,

    /// The region where the drive is [default: the environment's, else the profile's].
    #[arg(long, value_name = "REGION")]
    pub from_region: Option<String>,

    /// Copy it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,
}

/// Copies. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let to = context.which(&paths)?;
    let Which::Account(Account {
        profile,
        region: Some(region),
    }) = &to
    else {
        let error = anyhow!("the region to copy {} to is not named", args.drive);
        let hint = format!("xdrive copy {} --region us-west-2", args.drive);
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    };
    let from = Which::Account(Account {
        profile: profile.clone(),
        region: args.from_region,
    });
    let new = args.new.unwrap_or_else(|| args.drive.name.clone());
    let open = |name| context.opening(super::whole(name), args.shared);
    super::block_on(async {
        let there = Cloud::open(&from, &paths).await?;
        if there.ec2.region() == region.as_str() {
            let error = anyhow!("{} is in {region} already", args.drive);
            let hint = "xdrive fork copies within a region; --from-region names another one";
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        }
        let cloud = Cloud::open(&to, &paths).await?;
        let original = Drive::open(open(args.drive.name), there).await?;
        let found = saves::find(&original, args.drive.generation)?;
        saves::fork(Drive::open(open(new), cloud).await?, found).await
    })
}
