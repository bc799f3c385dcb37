//! `xdrive connect`: one session.

use std::time::Duration;

use super::flags::{Launch, Reach, Speed};
use super::{Context, key, local};
use crate::cloud::Which;
use crate::config::{self, Config, Options, Paths, SIZES};
use crate::drive::stuck::Head;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, SubnetId};
use crate::session::{self, Request};
use crate::ssh::escape;

/// The list of escapes, with which the help of `connect` ends.
pub(crate) fn escapes() -> String {
    let list = escape::HELP.replace('\r', "");
    list.trim_start_matches("~?\n").to_owned()
}

fn sizes() -> std::ops::RangeInclusive<i64> {
    i64::from(*SIZES.start())..=i64::from(*SIZES.end())
}

/// `xdrive connect`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and any of them goes with any other"
)]
pub struct Args {
    /// The drive: letters, digits, `.`, `_`, `-`; at most 64, the first a letter or a digit.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// The drive's size in GiB; an existing drive grows to it, never shrinks [default: the drive's,
    /// else 32; with --local, where all drives share one disk, 8].
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(sizes()))]
    pub size: Option<u32>,

    /// How fast the drive's volume is.
    #[command(flatten)]
    pub speed: Speed,

    /// The container's image: a registry reference, or the path of an image tar [default: the
    /// drive's, else one with Jupyter].
    #[arg(long, value_name = "REFERENCE|TAR")]
    pub image: Option<String>,

    /// The loopback port to forward Jupyter to; if it is busy, the next free one [default: 8888].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// How long the instance stays up without a sign of life from here, such as 8h, seven days at
    /// most: after ~d, while the laptop sleeps, when the network is gone. Then it closes the drive
    /// and switches itself off, and the next run saves the drive [default: 15m; after ~d 8h].
    #[arg(long, value_name = "TIME", value_parser = config::lease)]
    pub keep: Option<Duration>,

    /// How often to take a checkpoint of the drive while it is in use, such as 30m: a snapshot of
    /// what is on it, in case the volume itself is lost [default: never].
    #[arg(long, value_name = "TIME", value_parser = config::checkpoint)]
    pub checkpoint: Option<Duration>,

    /// When EC2 takes the instance back, go on on another one without asking: on demand before
    /// spot, unless --max-price or --fallback none is given. (A command is never run a second time:
    /// xdrive then ends with 75.)
    #[arg(long)]
    pub resume: bool,

    /// The subnet to launch in; its zone and its VPC are the drive's then [default: the default
    /// VPC, any zone].
    #[arg(long, value_name = "SUBNET")]
    pub subnet: Option<SubnetId>,

    /// The IAM role that the instance gets, by its instance profile's name or ARN [default: none].
    #[arg(long, value_name = "PROFILE", value_parser = config::instance_profile)]
    pub instance_profile: Option<String>,

    /// Go on from this volume or snapshot, or begin anew (`empty`); whatever else there is, is kept
    /// as NAME.fork-N.
    #[arg(long, value_name = "VOLUME|SNAPSHOT|empty")]
    pub from: Option<Head>,

    /// Do not join a session that has the drive elsewhere; end with code 75 instead.
    #[arg(long)]
    pub no_join: bool,

    /// Use the drive although another caller (IAM user or role) used it last, or uses it now.
    #[arg(long)]
    pub shared: bool,

    /// Print what would be done and launched, with prices, and change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Run this in the container instead of a shell; its input, output and exit code are xdrive's.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,

    // Last, because each begins a section of the help that any argument after it would be in.
    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,

    /// What to launch.
    #[command(flatten)]
    pub launch: Launch,
}

/// Runs a session. Returns its exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let request = request(args, &paths)?;
    request.check(&context.which.command(&paths))?;
    super::block_on(async {
        if let Which::Local = context.which
            && let Some(code) = local::offer(&paths).await?
        {
            return Ok(code);
        }
        let cloud = context.open(&paths).await?;
        session::connect(request, cloud, key(&paths)?).await
    })
}

/// The request: flags over configuration.
pub fn request(args: Args, paths: &Paths) -> Result<Request, Failure> {
    let launch = args.launch.options();
    let flags = Options {
        size: args.size,
        speed: args.speed.into(),
        image: args.image,
        port: args.port,
        keep: args.keep,
        checkpoint: args.checkpoint,
        resume: args.resume,
        subnet: args.subnet,
        instance_profile: args.instance_profile,
        reach: args.reach.into(),
        ..launch.map_err(|error| Failure::new(Exit::Usage, error))?
    };
    Ok(Request {
        drive: args.drive,
        options: Options::choose(flags, Config::read(paths)?),
        from: args.from,
        no_join: args.no_join,
        shared: args.shared,
        dry_run: args.dry_run,
        command: args.command,
        examination: None,
    })
}
