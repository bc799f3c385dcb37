//! `xdrive local …`: the EC2 in a folder, for other tools.

mod setup;

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::{Context, print};
use crate::cloud::folder;
use crate::config::quantity;
use crate::failure::Failure;
use crate::ids::InstanceId;
use crate::report::{self, Text};
use crate::signals::{Signal, Signals};

pub(super) use setup::offer;

/// `xdrive local …`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build what local drives need, once: a machine tree and an image, in ~/.cache/xdrive.
    Setup,
    /// Serve its API on a loopback port until interrupted.
    Serve {
        /// The port; 0 takes a free one.
        #[arg(long, value_name = "PORT", default_value_t = 0)]
        port: u16,
    },
    /// Print the environment that points tools at the server.
    Env,
    /// Take a spot instance back, as AWS does.
    ///
    /// With a notice, then like a power cut.
    Interrupt {
        /// The instance: its id, as `xdrive --local list` shows it.
        #[arg(value_name = "INSTANCE")]
        instance: InstanceId,
        /// How long before its end it gets the notice, such as 2m.
        ///
        /// A plain number is in seconds; 0 ends it without one.
        #[arg(
            long = "in",
            value_name = "TIME",
            default_value = "2m",
            value_parser = quantity::notice
        )]
        notice: Duration,
    },
    /// Recommend to leave a spot instance, as AWS does.
    ///
    /// When it may be interrupted soon.
    Rebalance {
        /// The instance: its id, as `xdrive --local list` shows it.
        #[arg(value_name = "INSTANCE")]
        instance: InstanceId,
    },
    /// Look after one instance (started by `RunInstances`, not by hand).
    #[command(hide = true)]
    Supervise {
        /// The state directory.
        dir: PathBuf,
        /// The cache of machine trees.
        cache: PathBuf,
        /// The instance.
        instance: String,
    },
    /// Serve a volume whose blocks come late; attachments start it.
    #[command(hide = true)]
    ServeVolume {
        /// The state directory.
        dir: PathBuf,
        /// The volume.
        volume: String,
    },
}

/// Runs the command. Returns the exit code.
pub(crate) fn run(command: Command, context: &Context) -> Result<u8, Failure> {
    match command {
        Command::Setup => setup::run(context),
        Command::Serve { port } => {
            let paths = context.paths()?;
            super::block_on(async {
                let mut signals = Signals::install().map_err(anyhow::Error::from)?;
                let end = async { while !matches!(signals.next().await, Signal::End(_)) {} };
                let ready = |url: &str| report::data(&Text::block(&format!("{url}\n")));
                folder::serve(&paths, port, ready, end).await?;
                Ok(0)
            })
        }
        Command::Env => print(&folder::environment(&context.paths()?)?),
        Command::Interrupt { instance, notice } => {
            let at = folder::interrupt(&context.paths()?, &instance, notice)?;
            print(&format!("{instance} ends at {at:.0}\n"))
        }
        Command::Rebalance { instance } => {
            let at = folder::rebalance(&context.paths()?, &instance)?;
            print(&format!(
                "{instance} has a rebalance recommendation since {at:.0}\n"
            ))
        }
        Command::Supervise {
            dir,
            cache,
            instance,
        } => {
            folder::supervise(&dir, &cache, &instance)?;
            Ok(0)
        }
        Command::ServeVolume { dir, volume } => {
            folder::serve_volume(&dir, &volume)?;
            Ok(0)
        }
    }
}
