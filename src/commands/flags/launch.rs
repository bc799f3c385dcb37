//! The flags that say what is launched, and at what price.

use clap::Args;

use crate::config::launch::{self, ArchChoice, Fallback, LaunchOptions};
use crate::config::{self, quantity};
use crate::drive::pools::{InvalidRequirements, Requirements, Resources};
use crate::ec2::{Market, Price};

/// What to launch.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to launch")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Launch {
    /// The instance type, such as m5.large; repeatable.
    ///
    /// Several (repeated, or with commas) are tried in this order [default: the drive's, else
    /// whatever has 2 CPUs and 4 GiB, the cheapest first]. Types for bursts (t3, t4g) are launched
    /// only where they are named: above their baseline they cost extra.
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_parser = launch::types,
        help_heading = None
    )]
    types: Vec<String>,

    /// In place of a type: the cheapest with N NVIDIA GPUs.
    ///
    /// At least N whole GPUs [default: none].
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "types",
        value_parser = quantity::gpus,
        help_heading = None
    )]
    gpu: Option<u32>,

    /// In place of a type: the cheapest with N virtual CPUs.
    ///
    /// At least N; with what --memory and --gpu ask for.
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "types",
        value_parser = quantity::cpus,
        hide_short_help = true
    )]
    cpus: Option<u32>,

    /// In place of a type: the cheapest with this memory, such as 64G.
    ///
    /// At least SIZE; with what --cpus and --gpu ask for. A plain number is in GiB.
    #[arg(
        long,
        value_name = "SIZE",
        conflicts_with = "types",
        value_parser = quantity::memory,
        hide_short_help = true
    )]
    memory: Option<u32>,

    /// What a new drive's programs are compiled for.
    ///
    /// --cpus, --memory and --gpu find only types of that architecture, and --type has to have it.
    /// A drive keeps its own [default: its image's if that is an archive, else `x86_64`].
    #[arg(long, value_name = "ARCH", hide_short_help = true)]
    arch: Option<ArchChoice>,

    /// Launch only types that AWS's free tier has.
    ///
    /// On demand unless --spot is given; with --cpus, --memory and --gpu those that have as much.
    #[arg(long, conflicts_with = "types", hide_short_help = true)]
    free: bool,

    /// Launch spot instances.
    ///
    /// The default, unless the configuration says otherwise.
    #[arg(long, hide_short_help = true)]
    spot: bool,

    /// Launch on demand: dearer, and never taken back.
    #[arg(long, conflicts_with = "spot", help_heading = None)]
    on_demand: bool,

    /// What to do where no spot is to be had.
    ///
    /// [default: ask at a terminal whether to launch on demand; without one, end with code 75].
    #[arg(
        long,
        value_name = "MARKET",
        conflicts_with = "on_demand",
        hide_short_help = true
    )]
    fallback: Option<Fallback>,

    /// The most to pay for a spot instance, in US dollars an hour.
    ///
    /// Such as 0.05 [default: the on-demand price].
    #[arg(
        long,
        value_name = "DOLLARS",
        value_parser = quantity::max_price,
        hide_short_help = true
    )]
    max_price: Option<Price>,

    /// Tag all that is made, such as CostCenter=42; repeatable.
    ///
    /// The instance, its root disk and interface, the spot request, the volume, snapshots and security
    /// group; with those of `tags` in the configuration. The drive's own are carried on.
    #[arg(
        long = "tag",
        value_name = "KEY=VALUE",
        value_parser = config::tag,
        hide_short_help = true
    )]
    pub tags: Vec<(String, String)>,

    /// The machine image: an AMI's id or resolve:ssm:PARAMETER.
    ///
    /// It needs Docker and systemd [default: Amazon Linux 2023 as AWS publishes it for the type].
    #[arg(
        long,
        value_name = "AMI",
        value_parser = launch::ami,
        hide_short_help = true
    )]
    ami: Option<String>,

    /// Leave the zone of the drive's waiting volume if that is full.
    ///
    /// The volume is saved as a snapshot, which takes minutes, and the launch is in any zone.
    #[arg(long, hide_short_help = true)]
    leave_zone: bool,
}

impl Launch {
    /// The options of these flags.
    pub fn options(&self) -> Result<LaunchOptions, InvalidRequirements> {
        let resources = Resources {
            cpus: self.cpus.unwrap_or(0),
            memory: self.memory.unwrap_or(0),
            gpus: self.gpu.unwrap_or(0),
        };
        let requirements = match (self.types.as_slice(), resources == Resources::default()) {
            ([], true) => None,
            ([], false) => Some(Requirements::AtLeast(resources)),
            (types, _) => Some(Requirements::types(types)?),
        };
        let market = match (self.spot, self.on_demand) {
            (_, true) => Some(Market::OnDemand),
            (true, _) => Some(Market::Spot),
            (false, false) => None,
        };
        Ok(LaunchOptions {
            requirements,
            arch: self.arch,
            is_free: self.free,
            market,
            fallback: self.fallback,
            max_price: self.max_price,
            ami: self.ami.clone(),
            leave_zone: self.leave_zone,
            ..LaunchOptions::default()
        })
    }
}
