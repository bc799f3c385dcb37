//! `xdrive attach`: back to a command that runs on a drive.

use super::flags::Reach;
use super::{Context, connect};
use crate::config::{Config, Once, Options};
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::session::{Request, Task};

/// `xdrive attach`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// The run: the beginning of its id [default: the only one].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,

    /// Use the drive although another caller has or had it.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Attaches to the run. Returns its exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    let config = Config {
        no_jupyter: true,
        once: Once {
            shared: args.shared,
            ..Once::default()
        },
        ..Config::default()
    };
    let options = Options {
        config,
        reach,
        ..Options::default()
    };
    let request = Request {
        task: Task::Attach(args.run),
        ..Request::new(args.drive, options)
    };
    connect::begin(request, &paths, context)
}
