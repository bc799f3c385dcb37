//! The arguments of `xdrive workers`.

use std::time::Duration;

use anyhow::anyhow;

use crate::commands::flags::Launch;
use crate::config::{Config, quantity};
use crate::drive::tags::MOST_WORKERS;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;

/// `xdrive workers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive that leads them. It has to be up, and saved once.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// How many there are to be; 0 ends them all. Without it they are listed.
    ///
    /// Workers up to N that are there stay, and others are ended.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_WORKERS)))]
    pub number: Option<u16>,

    /// How long CMD may take, such as 24h or 3d [default: 24h].
    ///
    /// Then it ends as a run does, and its instance with it.
    #[arg(long, value_name = "TIME", value_parser = quantity::limit, help_heading = None)]
    pub max: Option<Duration>,

    /// The launch of each.
    #[command(flatten)]
    pub launch: Launch,

    /// Run this in the container of each.
    ///
    /// With `XDRIVE_LEADER`, the leader's name there, `XDRIVE_WORKER`, its own number, and `XDRIVE_WORKERS`.
    #[arg(last = true, value_name = "CMD", help_heading = None)]
    pub command: Vec<String>,
}

impl Args {
    /// Whether nothing says what workers are to be like: they are as those before.
    pub(super) fn are_as_before(&self) -> bool {
        let Config {
            dry_run,
            cidr,
            proxy_command,
            once,
            ..
        } = self.launch.config.clone();
        let rest = Config {
            dry_run,
            cidr,
            proxy_command,
            once,
            ..Config::default()
        };
        let is_reserved = self.launch.config.once.reservation.is_some();
        let has_more = self.max.is_some() || is_reserved;
        self.command.is_empty() && !has_more && self.launch.config == rest
    }

    /// Refuses what is for workers that are begun by it.
    pub(super) fn refuse_flags(&self) -> Result<(), Failure> {
        if self.are_as_before() && !self.launch.config.dry_run {
            return Ok(());
        }
        let error = anyhow!("--max, and the flags of a launch, are for workers that are begun");
        let hint = format!("xdrive workers {} N -- CMD… begins them", self.drive);
        Err(Failure::new(Exit::Usage, error).hint(hint))
    }
}
