//! `xdrive stop`: saves a drive from anywhere.

use super::flags::Reach;
use super::{Context, Names};
use crate::cloud::Cloud;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::opener::{Drive, Opening};
use crate::visit::{self, Manner, Visitor};

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

    /// End its instance, which hangs, and save what its volume has.
    ///
    /// Only if the instance does not answer, and EC2's own status check of it has
    /// failed for five minutes. What its programs had not written yet is lost.
    #[arg(long)]
    pub hung: bool,

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
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach.clone(), &paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let names = Names::find(&cloud, &paths);
        let code = stop(args, cloud, super::visitor(&paths, reach)?).await?;
        if let Some(names) = names {
            names.add(&args.drive);
        }
        Ok(code)
    })
}

/// Saves the drive of `cloud`, whose host `visitor` visits. Returns the exit code.
pub async fn stop(args: &Args, cloud: Cloud, visitor: Visitor) -> Result<u8, Failure> {
    let opening = Opening {
        shared: args.shared,
        json: args.json,
        ..Opening::new(super::whole(args.drive.clone()))
    };
    let manner = if args.hung {
        Manner::EndHung
    } else {
        Manner::End
    };
    visit::stop(Drive::open(opening, cloud).await?, visitor, manner).await
}
