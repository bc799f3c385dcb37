//! The options of a session, chosen from its flags and the configuration file.

use std::ffi::OsString;
use std::path::PathBuf;

use super::docker::DockerLogins;
use super::forward::Forwarding;
use super::git::GitUser;
use super::launch::{self, ArchChoice, LaunchOptions};
use super::over::Over as _;
use super::reach::Reach;
use super::settings::Config;
use super::variables::{Asked, Variables};
use crate::drive::pools::{Requirements, Resources};
use crate::ec2::{HostAddress, Market, OpenPort, Speed, Tags};
use crate::host::places::Places;
use crate::host::shares::Shared;

/// The options of a session: flags over configuration. What is `None` is decided by the drive's own
/// tags, then by the cloud's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Settings by flags, or else by the configuration.
    pub config: Config,
    /// Requirements and terms of the launch.
    pub launch: LaunchOptions,
    /// The configured architecture, which is for new drives alone.
    pub new_arch: Option<ArchChoice>,
    /// The configured size in GiB, likewise.
    pub new_size: Option<u32>,
    /// The configured image, likewise.
    pub new_image: Option<String>,
    /// The image: a registry reference, or the path of an archive.
    pub image: Option<String>,
    /// Whether what begins may be frozen, as it was typed: from then on the drive has it as a setting.
    pub freezing: Option<bool>,
    /// Mounts of the main container, and whether it has Docker's socket.
    pub places: Places,
    /// The variables that the session brings along.
    pub variables: Variables,
    /// The socket of the SSH agent that is forwarded, if one is.
    pub agent: Option<PathBuf>,
    /// Git's identity, which the container has where it has none of its own.
    pub git: Option<GitUser>,
    /// The logins at registries by which images are pulled.
    pub logins: Option<DockerLogins>,
    /// All shares of the drive's containers, which become the drive's own; none leaves them as they are.
    pub shares: Option<Vec<Shared>>,
    /// All ports of the drive's host that others may reach, which become the drive's own; none leaves them as they
    /// are.
    pub ingress: Option<Vec<OpenPort>>,
    /// The public address of the drive's hosts, which becomes the drive's own; none leaves it as it is.
    pub address: Option<HostAddress>,
    /// How hosts are reached.
    pub reach: Reach,
    /// The typed tags of the account's own: those of the configuration are for every command.
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

    /// Chooses each option from the `flags`, else from the configuration `file`. What the session
    /// brings along is still missing.
    pub fn choose(flags: Config, file: Config) -> Result<Self, String> {
        // A reservation has a type, and is on demand: of types only what is typed beside it counts.
        let is_reserved = flags.once.reservation.is_some();
        let (requirements, market) = if is_reserved {
            (flags.requirements()?, Some(Market::OnDemand))
        } else {
            let market = flags.named_market().or(file.market);
            (requirements(&flags, &file)?, market)
        };
        let is_free = !is_reserved && flags.is_free(&file);
        let (arch, size, image) = (flags.arch, flags.size, flags.image.clone());
        let freezing = flags.freeze;
        // A type on the command line decides the architecture.
        let new_arch = file.arch.filter(|_| flags.types.is_empty());
        let (new_size, new_image) = (file.size, file.image.clone());
        let places = flags.places().or(file.places());
        let shares = flags.shares().or(file.shares());
        let ingress = flags.ingress();
        check_length(ingress.as_deref().unwrap_or_default())?;
        let address = flags.host_address();
        let tags = flags.tags.iter().cloned().collect();
        let config = flags.laid_over(file);
        Ok(Self {
            launch: LaunchOptions {
                requirements,
                arch,
                market: market.or(is_free.then_some(Market::OnDemand)),
                fallback: config.fallback,
                max_price: config.max_price.map(|it| it.0),
                budget: config.once.budget.map(|it| it.0),
                prefer: config.prefer,
                reservation: config.once.reservation.clone(),
                is_free,
                ami: config.ami.clone().map(|it| it.0),
                leave_zone: config.leave_zone,
                subnet: config.subnet.clone(),
                instance_profile: config.instance_profile.clone().map(|it| it.0),
                size: size.map(|it| it.0),
                speed: config.speed(),
                notice: config.notice.map(|it| it.0),
                checkpoint: config.checkpoint.map(|it| it.0),
                freezes: config.freeze,
                slices: config.slices.map(|it| it.0),
            },
            new_arch,
            new_size: new_size.map(|it| it.0),
            new_image,
            image,
            freezing,
            places,
            shares,
            ingress,
            address,
            reach: config.reach(),
            tags,
            config,
            ..Self::default()
        })
    }
}

/// Refuses ports that do not fit in a tag of the drive (EC2 user guide, *Tag restrictions*).
fn check_length(ports: &[OpenPort]) -> Result<(), String> {
    const TAG: usize = 256;
    let length: usize = ports.iter().map(|port| port.to_string().len() + 1).sum();
    if length <= TAG {
        return Ok(());
    }
    Err(format!(
        "the ports and ranges of --ingress have more than {TAG} characters"
    ))
}

/// Requirements of the launch, by the flags or else by the configuration `file`.
fn requirements(flags: &Config, file: &Config) -> Result<Option<Requirements>, String> {
    let configured = file.requirements().unwrap_or_default();
    // The free tier replaces the configuration's types.
    let configured =
        configured.filter(|it| !(flags.is_free(file) && matches!(it, Requirements::Types(_))));
    // Chosen as a whole: a type on the command line replaces configured resources, too.
    Ok(flags.requirements()?.or(configured))
}

impl Config {
    /// Lays these flags over the configuration `file`: each setting by itself, but for the ports that
    /// both forward, and Jupyter, for which a port on the command line asks.
    fn laid_over(self, file: Self) -> Self {
        let no_jupyter = self.no_jupyter || (file.no_jupyter && self.jupyter_port.is_none());
        let forwards = together(self.forwards.clone(), file.forwards.clone());
        let remote_forwards = together(self.remote_forwards.clone(), file.remote_forwards.clone());
        Self {
            no_jupyter,
            forwards,
            remote_forwards,
            ..self.over(file)
        }
    }

    /// Whether only the free tier's types are launched; these are the flags.
    fn is_free(&self, file: &Self) -> bool {
        self.free || (file.free && self.types.is_empty())
    }

    /// The market that flags name.
    fn named_market(&self) -> Option<Market> {
        match (self.spot, self.on_demand || self.free) {
            (true, _) => Some(Market::Spot),
            (false, true) => Some(Market::OnDemand),
            (false, false) => None,
        }
    }

    /// Requirements of the launch, if there are any.
    pub fn requirements(&self) -> Result<Option<Requirements>, String> {
        let resources = Resources {
            cpus: self.cpus.map_or(0, |it| it.0),
            memory: self.memory.map_or(0, |it| it.0),
            gpus: self.gpu.map_or(0, |it| it.0),
        };
        launch::requirements(&self.types, resources)
    }

    /// How fast the drive's volume is.
    #[must_use]
    pub fn speed(&self) -> Speed {
        Speed {
            iops: self.iops.map(|it| it.0),
            throughput: self.throughput.map(|it| it.0),
            warm: self.warm.map(|it| it.0),
        }
    }

    /// Mounts of the container, and whether it has Docker's socket; `None` where that is left open.
    #[must_use]
    pub fn places(&self) -> Places {
        let has_none = self.no_mounts.then(Vec::new);
        let is_typed = self.docker || self.no_docker;
        Places {
            mounts: self.mounts.clone().or(has_none),
            docker: is_typed.then_some(self.docker).or(self.has_docker),
        }
    }

    /// All shares of the drive's containers; `None` where that is left open.
    fn shares(&self) -> Option<Vec<Shared>> {
        let has_none = self.no_shares.then(Vec::new);
        self.shares.clone().or(has_none)
    }

    /// All ports of the drive's host that others may reach; `None` where that is left open.
    fn ingress(&self) -> Option<Vec<OpenPort>> {
        let has_none = self.no_ingress.then(Vec::new);
        self.ingress.clone().or(has_none)
    }

    /// The public address of the drive's hosts; `None` where that is left open.
    fn host_address(&self) -> Option<HostAddress> {
        let is_any = self.no_address.then_some(HostAddress::Any);
        self.address.clone().map(HostAddress::Elastic).or(is_any)
    }

    /// How hosts are reached.
    #[must_use]
    pub fn reach(&self) -> Reach {
        Reach {
            cidrs: self.cidr.clone(),
            address_service: self.address_service.clone(),
            proxy: self.proxy_command.clone(),
        }
    }

    /// Adds the variables that sessions bring along, of those that `caller` has, to `variables`, which
    /// they outrank. `is_strict`: one that `caller` does not have is an error.
    pub fn add_variables(
        &self,
        variables: &mut Variables,
        is_strict: bool,
        caller: &dyn Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<()> {
        let asked = Asked {
            files: &self.env_file,
            variables: &self.env,
            is_strict,
        };
        variables.add(asked, caller)
    }

    /// The logins of docker's client, which `caller` has; none if they stay here.
    pub fn logins(&self, caller: &dyn Fn(&str) -> Option<OsString>) -> Option<DockerLogins> {
        (!self.no_registry_login).then(|| DockerLogins::locate(caller))
    }
}

/// The forwards of flags, and those of the configuration that are others.
fn together(mut forwards: Vec<Forwarding>, configured: Vec<Forwarding>) -> Vec<Forwarding> {
    for forward in configured {
        if !forwards.contains(&forward) {
            forwards.push(forward);
        }
    }
    forwards
}
