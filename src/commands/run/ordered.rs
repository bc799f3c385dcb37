//! The arguments of `xdrive run` that the order of a run has on the drive, too.

use std::num::NonZeroU8;
use std::time::Duration;

use crate::config::{S3Prefix, quantity};

/// What a run is ordered to be, beside its command.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Ordered {
    /// How long it may take, such as 24h or 3d.
    ///
    /// Then it gets SIGTERM, --notice later SIGKILL, and its exit code is 124; 60 days at most
    /// [default: 24h]. All its tries share the time.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::limit,
        hide_short_help = true,
        help_heading = None
    )]
    pub max: Option<Duration>,

    /// Start it again on another instance if it loses its own.
    ///
    /// If EC2 took the instance and the command did not end with 0. The command has no input;
    /// `XDRIVE_TRY` in its environment is the number of the try. This computer starts it again, or, once
    /// it has left, wherever `xdrive tend` runs.
    #[arg(long, hide_short_help = true, help_heading = None)]
    pub restart: bool,

    /// How often to start it again at most [default: 3; with -d 1000].
    #[arg(
        long,
        value_name = "N",
        requires = "restart",
        value_parser = quantity::tries,
        hide_short_help = true,
        help_heading = None
    )]
    pub tries: Option<u32>,

    /// How often to start it again after it failed, on the same instance.
    ///
    /// A minute later, and twice as long each time, 15 minutes at most. Three tries in a row that fail
    /// within 10 minutes each end the run.
    #[arg(
        long,
        value_name = "N",
        requires = "restart",
        value_parser = quantity::tries,
        hide_short_help = true,
        help_heading = None
    )]
    pub retry: Option<u32>,

    /// The exit codes after which --retry starts it again [default: all but 0 and 130, Ctrl-C's].
    #[arg(
        long,
        value_name = "CODES",
        requires = "retry",
        value_delimiter = ',',
        value_parser = str::parse::<NonZeroU8>,
        hide_short_help = true,
        help_heading = None
    )]
    pub retry_on: Vec<NonZeroU8>,

    /// Bring what is in /work/results to this place in S3, at the end and every --results-every.
    ///
    /// By the AWS CLI on the instance, under its own role (`--instance-profile`): `xdrive policy --results`
    /// prints what that needs. Nothing is deleted there. A sync that fails does not fail the run.
    #[arg(long, value_name = "s3://BUCKET/PREFIX", hide_short_help = true, help_heading = None)]
    pub results: Option<S3Prefix>,

    /// How often, such as 10m [default: 10m].
    #[arg(
        long,
        value_name = "TIME",
        requires = "results",
        value_parser = quantity::results_every,
        hide_short_help = true,
        help_heading = None
    )]
    pub results_every: Option<Duration>,
}
