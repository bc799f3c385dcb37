//! The options of a session: flags first, then the configuration file. And the paths of xdrive's
//! files.
//!
//! What both leave open is decided by the drive's own tags, then by the cloud's defaults. Nothing that
//! is kept on this computer is needed to find or finish a drive: the configuration is the user's, a
//! lost key is made again, the names of drives are kept for completions only ([`names`]), their hosts'
//! keys for `ssh` only ([`known_hosts`]), and the EC2 in a folder stands for AWS.

mod agent;
pub mod cloud;
mod docker;
pub mod environment;
mod forward;
mod git;
mod iam;
mod known_hosts;
pub mod launch;
mod names;
mod paths;
mod places;
pub mod quantity;
mod reach;
mod tags;
mod variables;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::drive::pools::{Requirements, Resources};
use crate::ec2::{Cidr, Market, Price, Speed, Tags};
use crate::failure::{Exit, Failure};
use crate::ids::SubnetId;
use crate::ssh::ProxyCommand;

use cloud::CloudName;
use reach::Several;

pub use crate::host::places::{Mount, Places};
pub use agent::agent;
pub use cloud::is_local;
pub use docker::{DockerLogins, FoundLogin};
pub use forward::{Forwarding, InvalidForwarding};
pub use git::GitUser;
pub use iam::{instance_profile, role};
pub use known_hosts::{KnownHosts, SUFFIX};
pub use names::Names;
pub use paths::Paths;
pub use reach::Reach;
pub use tags::{check_count as check_tags, tag};
pub use variables::{Asked, LONGEST_WORD, Variables};

use launch::{ArchChoice, Fallback, LaunchOptions, Types};

/// `config.toml`: what a user sets once. Every key is optional; an unknown one is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct Config {
    /// The EC2 that is worked on where no flag says so.
    pub cloud: Option<CloudName>,
    /// The instance type, or several in order of liking.
    #[serde(rename = "type")]
    types: Option<Types>,
    /// In place of a type: the fewest vCPUs.
    #[serde(default, deserialize_with = "cpus_of")]
    cpus: Option<u32>,
    /// In place of a type: the least memory, in GiB.
    #[serde(default, deserialize_with = "memory_of")]
    memory: Option<u32>,
    /// In place of a type: the fewest NVIDIA GPUs.
    #[serde(default, deserialize_with = "gpus_of")]
    gpu: Option<u32>,
    /// The architecture of new drives.
    pub arch: Option<ArchChoice>,
    /// Whether only the free tier's types are launched.
    #[serde(default)]
    pub free: bool,
    /// `spot` or `on-demand`.
    #[serde(default, deserialize_with = "launch::market_of")]
    pub market: Option<Market>,
    /// What to do without spot capacity.
    pub fallback: Option<Fallback>,
    /// The highest price for spot, in US dollars an hour.
    #[serde(default, deserialize_with = "max_price_of")]
    pub max_price: Option<Price>,
    /// The machine image.
    #[serde(default, deserialize_with = "launch::ami_of")]
    pub ami: Option<String>,
    /// Whether to leave the zone of the drive's volume if it has no capacity.
    #[serde(default)]
    pub leave_zone: bool,
    /// The size of new drives, in GiB.
    #[serde(default, deserialize_with = "size_of")]
    pub size: Option<u32>,
    /// The throughput of the drive's volume, in MiB a second.
    #[serde(default, deserialize_with = "throughput_of")]
    throughput: Option<u32>,
    /// The IOPS of the drive's volume.
    #[serde(default, deserialize_with = "iops_of")]
    iops: Option<u32>,
    /// The rate at which the volume is filled from its snapshot, in MiB a second.
    #[serde(default, deserialize_with = "warm_of")]
    warm: Option<u32>,
    /// The image of new drives.
    pub image: Option<String>,
    /// The mounts of containers.
    #[serde(default, deserialize_with = "places::mounts")]
    mount: Option<Vec<Mount>>,
    /// Whether containers have Docker's socket.
    docker: Option<bool>,
    /// The loopback port for Jupyter.
    #[serde(default, alias = "port", deserialize_with = "port_of")]
    pub jupyter_port: Option<u16>,
    /// Whether Jupyter is left alone.
    #[serde(default)]
    pub no_jupyter: bool,
    /// Whether Jupyter's address is opened in the browser.
    #[serde(default)]
    pub open: bool,
    /// The ports on this computer that lead into the container.
    #[serde(default, deserialize_with = "forward::several")]
    forward: Vec<Forwarding>,
    /// The ports in the container that lead to this computer.
    #[serde(default, deserialize_with = "forward::several")]
    remote_forward: Vec<Forwarding>,
    /// Whether a busy port is an error.
    #[serde(default)]
    pub exact_ports: bool,
    /// The variables that sessions bring along: one, or several.
    env: Option<Several<String>>,
    /// Files of such variables, likewise.
    env_file: Option<Several<PathBuf>>,
    /// Whether the SSH agent is forwarded, where there is one.
    #[serde(default)]
    pub agent: bool,
    /// Whether programs in the container may use the caller's AWS credentials.
    #[serde(default)]
    pub aws: bool,
    /// Whether Git's identity stays here.
    #[serde(default)]
    pub no_git: bool,
    /// Whether the logins of docker's client stay here.
    #[serde(default)]
    no_registry_login: bool,
    /// How long an instance stays up without a sign of life, such as `8h`.
    #[serde(default, deserialize_with = "lease_of")]
    pub keep: Option<Duration>,
    /// The interval between checkpoints.
    #[serde(default, deserialize_with = "checkpoint_of")]
    pub checkpoint: Option<Duration>,
    /// Whether a session resumes on another instance without asking.
    #[serde(default)]
    pub resume: bool,
    /// How long a command may take to end when its instance is taken, such as `30s`.
    #[serde(default, deserialize_with = "ending_of")]
    pub notice: Option<Duration>,
    /// How much of each output of a command its host keeps, such as `64M`.
    #[serde(default, deserialize_with = "spool_of")]
    pub spool: Option<u64>,
    /// The subnet to launch in.
    pub subnet: Option<SubnetId>,
    /// The instance profile that instances get, by name or ARN.
    #[serde(default, deserialize_with = "instance_profile_of")]
    pub instance_profile: Option<String>,
    /// The ranges of addresses that may log in: one, or several.
    cidr: Option<Several<Cidr>>,
    /// Tags of the account's own, for all that is made.
    #[serde(default, deserialize_with = "tags::several")]
    pub tags: Tags,
    /// The URL of a service that answers with this computer's address.
    address_service: Option<String>,
    /// The proxy command of connections.
    proxy_command: Option<ProxyCommand>,
}

fn instance_profile_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    instance_profile(&text).map(Some).map_err(D::Error::custom)
}

fn cpus_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::cpus)
}

fn memory_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::memory)
}

fn gpus_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::gpus)
}

fn size_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::size)
}

fn throughput_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::throughput)
}

fn iops_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::iops)
}

fn warm_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    quantity::configured(from, quantity::warm)
}

fn max_price_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Price>, D::Error> {
    quantity::configured(from, quantity::max_price)
}

fn port_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    quantity::configured(from, quantity::port)
}

fn lease_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    quantity::configured(from, quantity::lease)
}

fn spool_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity::configured(from, quantity::spool)
}

fn ending_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    quantity::configured(from, quantity::ending)
}

fn checkpoint_of<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    quantity::configured(from, quantity::checkpoint)
}

impl Config {
    /// Reads the configuration file. A missing one is empty.
    pub fn read(paths: &Paths) -> Result<Self, Failure> {
        let path = paths.config.display();
        match std::fs::read_to_string(&paths.config) {
            Ok(text) => Self::parse(&text).map_err(|error| {
                Failure::new(
                    Exit::Config,
                    anyhow!("{path} is not a configuration: {error}"),
                )
                .hint("xdrive help config lists its keys")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::new(
                Exit::Config,
                anyhow::Error::new(error).context(format!("cannot read {path}")),
            )),
        }
    }
}

impl Config {
    /// How hosts are reached.
    pub fn reach(&mut self) -> Reach {
        Reach {
            cidrs: self.cidr.take().map(Vec::from).unwrap_or_default(),
            address_service: self.address_service.take(),
            proxy: self.proxy_command.take(),
        }
    }

    /// The variables that sessions bring along, of those that `caller` has.
    pub fn variables(
        &self,
        caller: &dyn Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<Variables> {
        let mut variables = Variables::default();
        let files = self.env_file.clone().map(Vec::from).unwrap_or_default();
        let names = self.env.clone().map(Vec::from).unwrap_or_default();
        let asked = Asked {
            files: &files,
            variables: &names,
            is_strict: false,
        };
        variables.add(asked, caller)?;
        Ok(variables)
    }

    /// The logins of docker's client, which `caller` has; none if they stay here.
    pub fn logins(&self, caller: &dyn Fn(&str) -> Option<OsString>) -> Option<DockerLogins> {
        (!self.no_registry_login).then(|| DockerLogins::of(caller))
    }

    /// What to launch, if that is configured.
    pub fn requirements(&self) -> Result<Option<Requirements>, String> {
        let types = match &self.types {
            None => &[],
            Some(Types::One(one)) => std::slice::from_ref(one),
            Some(Types::Several(several)) => several.as_slice(),
        };
        let resources = Resources {
            cpus: self.cpus.unwrap_or(0),
            memory: self.memory.unwrap_or(0),
            gpus: self.gpu.unwrap_or(0),
        };
        launch::requirements(types, resources)
    }

    /// How fast the drive's volume is.
    pub(crate) fn speed(&self) -> Speed {
        Speed {
            iops: self.iops,
            throughput: self.throughput,
            warm: self.warm,
        }
    }

    /// The ranges are those of the flags.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text)?;
        if let Some(url) = &config.address_service
            && let Err(why) = reach::check_service(url)
        {
            bail!("address_service = {url:?}: {why}");
        }
        let requirements = config.requirements().map_err(anyhow::Error::msg)?;
        if config.free && matches!(requirements, Some(Requirements::Types(_))) {
            bail!(
                "types are named, or free = true takes those that the free tier has, but not both"
            );
        }
        Ok(config)
    }
}

/// The options of a session: flags over configuration. What is `None` is decided by the drive's own
/// tags, then by the cloud's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option, and any goes with any other"
)]
pub struct Options {
    /// What to launch.
    pub launch: LaunchOptions,
    /// The configured architecture, which is for new drives alone.
    pub new_arch: Option<ArchChoice>,
    /// The configured size in GiB, likewise.
    pub new_size: Option<u32>,
    /// The configured image, likewise.
    pub new_image: Option<String>,
    /// The image: a registry reference, or the path of an archive.
    pub image: Option<String>,
    /// What the container has of the host.
    pub places: Places,
    /// The loopback port for Jupyter.
    pub jupyter_port: Option<u16>,
    /// Whether Jupyter is neither started nor forwarded.
    pub no_jupyter: bool,
    /// Whether Jupyter's address is opened in the browser.
    pub open: bool,
    /// The ports on this computer that lead into the container.
    pub forwards: Vec<Forwarding>,
    /// The ports in the container that lead to this computer.
    pub remote_forwards: Vec<Forwarding>,
    /// Whether a busy port is an error, and not replaced by another one.
    pub exact_ports: bool,
    /// The variables that the session brings along.
    pub variables: Variables,
    /// The socket of the SSH agent that is forwarded, if one is.
    pub agent: Option<PathBuf>,
    /// Whether programs in the container may use the caller's AWS credentials.
    pub aws: bool,
    /// Git's identity, which the container has where it has none of its own.
    pub git: Option<GitUser>,
    /// The logins at registries by which images are pulled.
    pub logins: Option<DockerLogins>,
    /// How long the instance stays up without a sign of life.
    pub keep: Option<Duration>,
    /// Whether the session resumes on another instance without asking.
    pub resume: bool,
    /// How many bytes of each output of a command its host keeps.
    pub spool: Option<u64>,
    /// How hosts are reached.
    pub reach: Reach,
    /// The typed tags of the account's own.
    pub tags: Tags,
    /// Whether a new drive is marked as scratch, to be discarded: no flag, `selftest` sets it.
    pub scratch: bool,
}

impl Options {
    /// The size in GiB of a new drive, if one is named.
    #[must_use]
    pub fn size_of_new(&self) -> Option<u32> {
        self.launch.size.or(self.new_size)
    }

    /// Chooses each option from the flags, else from the configuration.
    #[must_use]
    pub fn choose(flags: Self, mut config: Config) -> Self {
        let reach = flags.reach.or(config.reach());
        let names_types = matches!(flags.launch.requirements, Some(Requirements::Types(_)));
        Self {
            // A type on the command line decides the architecture.
            new_arch: config.arch.filter(|_| !names_types),
            new_size: config.size,
            new_image: config.image.take(),
            launch: launch_options(flags.launch, &config),
            image: flags.image,
            places: flags.places.or(Places {
                mounts: config.mount,
                docker: config.docker,
            }),
            jupyter_port: flags.jupyter_port.or(config.jupyter_port),
            // A port on the command line asks for Jupyter.
            no_jupyter: flags.no_jupyter || (config.no_jupyter && flags.jupyter_port.is_none()),
            open: flags.open || config.open,
            forwards: with_configured(flags.forwards, config.forward),
            remote_forwards: with_configured(flags.remote_forwards, config.remote_forward),
            exact_ports: flags.exact_ports || config.exact_ports,
            variables: flags.variables,
            agent: flags.agent,
            aws: flags.aws || config.aws,
            git: flags.git,
            logins: flags.logins,
            keep: flags.keep.or(config.keep),
            resume: flags.resume || config.resume,
            spool: flags.spool.or(config.spool),
            reach,
            // Those of the configuration are for every command.
            tags: flags.tags,
            scratch: flags.scratch,
        }
    }
}

/// What to launch, by the flags, else by the configuration.
fn launch_options(flags: LaunchOptions, config: &Config) -> LaunchOptions {
    let names_types = matches!(flags.requirements, Some(Requirements::Types(_)));
    let is_free = flags.is_free || (config.free && !names_types);
    let requirements = config.requirements().unwrap_or_default();
    // The free tier replaces the configuration's types.
    let requirements = requirements
        .filter(|requirements| !(is_free && matches!(requirements, Requirements::Types(_))));
    LaunchOptions {
        is_free,
        arch: flags.arch,
        // Chosen as a whole: a type on the command line replaces configured resources, too.
        requirements: flags.requirements.or(requirements),
        market: flags
            .market
            .or(flags.is_free.then_some(Market::OnDemand))
            .or(config.market)
            .or(is_free.then_some(Market::OnDemand)),
        fallback: flags.fallback.or(config.fallback),
        max_price: flags.max_price.or(config.max_price),
        ami: flags.ami.or_else(|| config.ami.clone()),
        leave_zone: flags.leave_zone || config.leave_zone,
        subnet: flags.subnet.or_else(|| config.subnet.clone()),
        instance_profile: flags
            .instance_profile
            .or_else(|| config.instance_profile.clone()),
        size: flags.size,
        speed: flags.speed.or(config.speed()),
        notice: flags.notice.or(config.notice),
        checkpoint: flags.checkpoint.or(config.checkpoint),
    }
}

/// The forwards of flags, and those of the configuration that are others.
fn with_configured(mut forwards: Vec<Forwarding>, configured: Vec<Forwarding>) -> Vec<Forwarding> {
    for forward in configured {
        if !forwards.contains(&forward) {
            forwards.push(forward);
        }
    }
    forwards
}
