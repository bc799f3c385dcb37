//! The flags that say what is launched, and at what price.

use clap::Args;

use crate::config::Options;
use crate::config::launch::{self, ArchChoice, Fallback};
use crate::drive::pools::{InvalidRequirements, Requirements, Resources};
use crate::ec2::{Market, Price};

/// What to launch.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to launch")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Launch {
    /// The instance type, such as m5.large; several (repeated, or with commas) are tried in this
    /// order [default: the drive's, else whatever has 2 CPUs and 4 GiB, the cheapest first]. Types
    /// for bursts (t3, t4g) are launched only where they are named: above their baseline they cost
    /// extra.
    #[arg(long = "type", value_name = "TYPE", value_parser = launch::types)]
    types: Vec<String>,

    /// Instead of a type: whatever has at least so many GPUs of NVIDIA's, the cheapest first
    /// [default: none].
    #[arg(long, value_name = "N", conflicts_with = "types",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpu: Option<u32>,

    /// Instead of a type: whatever has at least so many virtual CPUs, the cheapest first.
    #[arg(long, value_name = "N", conflicts_with = "types",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus: Option<u32>,

    /// Instead of a type: whatever has at least so much memory, in GiB, the cheapest first.
    #[arg(long, value_name = "GIB", conflicts_with = "types",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    memory: Option<u32>,

    /// What a new drive's programs are compiled for: a need is met by types of that architecture
    /// alone, and a type that is named has to run them. A drive keeps what it has [default: its
    /// image's if that is an archive, else `x86_64`].
    #[arg(long, value_name = "ARCH")]
    arch: Option<ArchChoice>,

    /// Launch only types that AWS's free tier has, on demand unless --spot says otherwise; of a
    /// need those that meet it.
    #[arg(long, conflicts_with = "types")]
    free: bool,

    /// Launch spot instances: the default, unless the configuration says otherwise.
    #[arg(long)]
    spot: bool,

    /// Launch on demand: dearer, and never taken back.
    #[arg(long, conflicts_with = "spot")]
    on_demand: bool,

    /// What to do where no spot is to be had [default: ask at a terminal whether to launch on
    /// demand; without one, end with code 75].
    #[arg(long, value_name = "MARKET", conflicts_with = "on_demand")]
    fallback: Option<Fallback>,

    /// The most to pay for a spot instance, in US dollars an hour, such as 0.05 [default: the
    /// on-demand price].
    #[arg(long, value_name = "DOLLARS", value_parser = launch::max_price)]
    max_price: Option<Price>,

    /// The machine image: an AMI's id or resolve:ssm:PARAMETER; it needs Docker and systemd
    /// [default: Amazon Linux 2023 as AWS publishes it for the type].
    #[arg(long, value_name = "AMI", value_parser = launch::ami)]
    ami: Option<String>,

    /// Where the zone of the drive's waiting volume has no capacity: save the volume as a snapshot,
    /// which takes minutes, and launch in any zone.
    #[arg(long)]
    leave_zone: bool,
}

impl Launch {
    /// The options of these flags.
    pub fn options(self) -> Result<Options, InvalidRequirements> {
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
        Ok(Options {
            requirements,
            arch: self.arch,
            is_free: self.free,
            market,
            fallback: self.fallback,
            max_price: self.max_price,
            ami: self.ami,
            leave_zone: self.leave_zone,
            ..Options::default()
        })
    }
}
