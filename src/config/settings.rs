//! The settings of a session: each is one field, and a flag of `connect` and `run`, a key of
//! `config.toml`, or both.
//!
//! A flag and a key of one name have one type, which is parsed in one way. Where a setting has no flag,
//! its field has `#[arg(skip)]`; where it has no key, `#[serde(skip)]`. The fields stand in the order of
//! the help, and so do their sections.

use std::path::PathBuf;

use serde::Deserialize;

use super::cloud::CloudName;
use super::forward::{self, Forwarding};
use super::iam::InstanceProfile;
use super::launch::{self, Ami, ArchChoice, Fallback, Preference};
use super::once::Once;
use super::quantity::{
    Checkpoint, Cpus, Ending, Gpus, IdleLimit, Iops, Lease, MaxPrice, Memory, Port, Size, Slices,
    Spool, Throughput, Warm,
};
use super::sections::{CONTAINER, DRIVE, LAUNCH, REACH, SESSION};
use super::{over, places, reach, tags};
use crate::ec2::{Cidr, Market, OpenPort};
use crate::host::places::Mount;
use crate::host::shares::Shared;
use crate::ids::{AllocationId, SubnetId};
use crate::ssh::ProxyCommand;

over::settings! {
/// Settings of a user, by flags or in the configuration file. Every one is optional; an unknown key is
/// an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The EC2 that is worked on where no flag says so.
    #[arg(skip)]
    pub cloud: Option<CloudName>,

    /// The instance type, such as m5.large; repeatable.
    ///
    /// Several (repeated, or with commas) are tried in this order [default: the drive's, else
    /// whatever has 2 CPUs and 4 GiB, the cheapest first]. Types for bursts (t3, t4g) are launched
    /// only where they are named: above their baseline they cost extra.
    #[arg(long = "type", value_name = "TYPE", value_parser = launch::types, help_heading = None)]
    #[serde(rename = "type", deserialize_with = "reach::several")]
    pub types: Vec<String>,

    /// In place of a type: the cheapest with N NVIDIA GPUs.
    ///
    /// At least N whole GPUs [default: none].
    #[arg(long, value_name = "N", conflicts_with = "types", help_heading = None)]
    pub gpu: Option<Gpus>,

    /// In place of a type: the cheapest with N virtual CPUs.
    ///
    /// At least N; with what --memory and --gpu ask for.
    #[arg(long, value_name = "N", conflicts_with = "types", hide_short_help = true, help_heading = LAUNCH)]
    pub cpus: Option<Cpus>,

    /// In place of a type: the cheapest with this memory, such as 64G.
    ///
    /// At least SIZE; with what --cpus and --gpu ask for. A plain number is in GiB.
    #[arg(long, value_name = "SIZE", conflicts_with = "types", hide_short_help = true, help_heading = LAUNCH)]
    pub memory: Option<Memory>,

    /// What a new drive's programs are compiled for.
    ///
    /// --cpus, --memory and --gpu find only types of that architecture, and --type has to have it.
    /// A drive keeps its own [default: its image's if that is an archive, else `x86_64`].
    #[arg(long, value_name = "ARCH", hide_short_help = true, help_heading = LAUNCH)]
    pub arch: Option<ArchChoice>,

    /// Launch only types that AWS's free tier has.
    ///
    /// On demand unless --spot is given; with --cpus, --memory and --gpu those that have as much.
    #[arg(long, conflicts_with = "types", hide_short_help = true, help_heading = LAUNCH)]
    pub free: bool,

    /// Launch spot instances.
    ///
    /// The default, unless the configuration says otherwise.
    #[arg(long, hide_short_help = true, help_heading = LAUNCH)]
    #[serde(skip)]
    pub spot: bool,

    /// Launch on demand: dearer, and never taken back.
    #[arg(long, conflicts_with = "spot", help_heading = None)]
    #[serde(skip)]
    pub on_demand: bool,

    /// The market of the configuration file: `spot` or `on-demand`.
    #[arg(skip)]
    pub market: Option<Market>,

    /// What to do where no spot is to be had.
    ///
    /// [default: ask at a terminal whether to launch on demand; without one, end with code 75].
    #[arg(long, value_name = "MARKET", conflicts_with = "on_demand", hide_short_help = true, help_heading = LAUNCH)]
    pub fallback: Option<Fallback>,

    /// The most to pay for a spot instance, in US dollars an hour.
    ///
    /// Such as 0.05 [default: the on-demand price].
    #[arg(long, value_name = "DOLLARS", hide_short_help = true, help_heading = LAUNCH)]
    pub max_price: Option<MaxPrice>,

    /// Take spot instances by the best price, or by what lasts.
    ///
    /// `lasting` tries the zone first that AWS's spot placement score says most likely has capacity,
    /// though another is cheaper; nothing that costs more than on demand, or than --max-price. It takes
    /// three types that meet what is asked for: of fewer there is no score [default: price].
    #[arg(long, value_name = "WHAT", hide_short_help = true, help_heading = LAUNCH)]
    pub prefer: Option<Preference>,

    /// Tag all that is made, such as CostCenter=42; repeatable.
    ///
    /// The instance, its root disk and interface, the spot request, the volume, snapshots and security
    /// group; with those of `tags` in the configuration. The drive's own are carried on.
    #[arg(
        long = "tag",
        value_name = "KEY=VALUE",
        value_parser = tags::tag,
        hide_short_help = true,
        help_heading = LAUNCH
    )]
    #[serde(deserialize_with = "tags::several")]
    pub tags: Vec<(String, String)>,

    /// The machine image: an AMI's id or resolve:ssm:PARAMETER.
    ///
    /// It needs Docker and systemd [default: Amazon Linux 2023 as AWS publishes it for the type].
    #[arg(long, value_name = "AMI", hide_short_help = true, help_heading = LAUNCH)]
    pub ami: Option<Ami>,

    /// Leave the zone of the drive's waiting volume if that is full.
    ///
    /// The volume is saved as a snapshot, which takes minutes, and the launch is in any zone.
    #[arg(long, hide_short_help = true, help_heading = LAUNCH)]
    pub leave_zone: bool,

    /// The drive's size, such as 200G or 1T; it can grow.
    ///
    /// A plain number is in GiB, and G, GB and GiB are the same. An existing drive grows to it and
    /// never shrinks [default: the drive's, else 32G; with --local, where all drives share one disk,
    /// 8G].
    #[arg(long, value_name = "SIZE", help_heading = None)]
    pub size: Option<Size>,

    /// The container's image: a reference, archive or ./folder.
    ///
    /// A registry's reference, the path of an archive as `docker save` writes it, or a folder with a
    /// Dockerfile or devcontainer.json, which is built on the instance [default: the drive's, else
    /// `JupyterLab`: with --local the image that was built here, on AWS
    /// quay.io/jupyter/minimal-notebook].
    #[arg(long, value_name = "IMAGE", help_heading = None)]
    pub image: Option<String>,

    /// How long the instance waits for you, such as 8h or 3d.
    ///
    /// How long it stays up without a sign of life from here, seven days at most: after ~d, while
    /// the laptop sleeps, when the network is gone. Then it closes the drive and switches itself
    /// off, and the next run saves the drive [default: 15m; after ~d, and while CMD runs,
    /// 8h; while that of run does, --max].
    #[arg(long, value_name = "TIME", help_heading = None)]
    pub keep: Option<Lease>,

    /// Go on elsewhere, unasked, if EC2 takes the instance back.
    ///
    /// On demand before spot, unless --max-price or --fallback none is given. A command is never
    /// run a second time: xdrive then ends with 75.
    #[arg(long, help_heading = None)]
    pub resume: bool,

    /// Have the shell and notebooks, or CMD, go on elsewhere, where they were, if EC2 takes the instance back.
    ///
    /// With its memory, on a processor of the same kind; CMD has no input. Later, too, for what has none,
    /// until --freeze=false. `xdrive help freeze` has the limits [default: the drive's].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          hide_short_help = true, help_heading = None)]
    pub freeze: Option<bool>,

    /// Print what would be launched, with prices; change nothing.
    #[arg(long, help_heading = None)]
    #[serde(skip)]
    pub dry_run: bool,

    /// MiB a second of the drive's volume: 125 to 2000.
    ///
    /// From its next restore on; a quarter of its IOPS at most. What is beyond 125 costs about $0.04
    /// each a month [default: the drive's, else 125].
    #[arg(long, value_name = "MIBPS", hide_short_help = true, help_heading = DRIVE)]
    pub throughput: Option<Throughput>,

    /// Operations a second of the drive's volume: 3000 to 80000.
    ///
    /// From its next restore on; 500 for each GiB at most. What is beyond 3000 costs about $0.005
    /// each a month [default: the drive's, else 3000].
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = DRIVE)]
    pub iops: Option<Iops>,

    /// MiB a second at which the volume is filled: 100 to 300.
    ///
    /// From its snapshot. Without it each block is fetched at its first read, slowly. AWS bills
    /// each fill by the data in the snapshot [default: the drive's, else as blocks are read].
    #[arg(long, value_name = "MIBPS", hide_short_help = true, help_heading = DRIVE)]
    pub warm: Option<Warm>,

    /// Show a folder of the drive elsewhere in the container, too.
    ///
    /// HOST is a path on the drive, below /work, and made if it is missing; CONTAINER is where it is
    /// in the container as well, in place of what the image has there. With :ro it cannot be written
    /// through that. It may be given several times; the container is made again from its own layer,
    /// and keeps its mounts until others are given.
    #[arg(long = "mount", value_name = "HOST:CONTAINER[:ro]", hide_short_help = true, help_heading = CONTAINER)]
    #[serde(rename = "mount", deserialize_with = "places::mounts")]
    pub mounts: Option<Vec<Mount>>,

    /// Take the container's mounts away; what is in them stays.
    #[arg(long, conflicts_with = "mounts", hide_short_help = true, help_heading = CONTAINER)]
    #[serde(skip)]
    pub no_mounts: bool,

    /// Have a share, which other drives have at the same time.
    ///
    /// PATH is where it is in the drive's containers [default: /data/NAME]; with :ro nothing can be
    /// written there. NAME may be the id of any file system of EFS. It may be given several times; the
    /// drive keeps its shares until others are given. `xdrive help shares` has what they cost.
    #[arg(long = "share", value_name = "NAME[=PATH][:ro]", hide_short_help = true, help_heading = CONTAINER)]
    #[serde(rename = "share", deserialize_with = "places::shares")]
    pub shares: Option<Vec<Shared>>,

    /// Take the drive's shares away; what is in them stays.
    #[arg(long, conflicts_with = "shares", hide_short_help = true, help_heading = CONTAINER)]
    #[serde(skip)]
    pub no_shares: bool,

    /// Let the container use the instance's Docker.
    ///
    /// Its socket is /var/run/docker.sock there; a client for it is the image's business. Whoever
    /// reaches it is root on the instance, and so has its role and all of the drive. Containers that
    /// are started by it are stopped when the drive is saved, and are on it the next time. It stays
    /// so until --no-docker.
    #[arg(long, overrides_with = "no_docker", hide_short_help = true, help_heading = CONTAINER)]
    #[serde(skip)]
    pub docker: bool,

    /// Take Docker's socket away from the container again.
    #[arg(long, overrides_with = "docker", hide_short_help = true, help_heading = CONTAINER)]
    #[serde(skip)]
    pub no_docker: bool,

    /// Whether containers have Docker's socket, by the configuration file.
    #[arg(skip)]
    #[serde(rename = "docker")]
    pub has_docker: Option<bool>,

    /// The port on this computer that leads to Jupyter.
    ///
    /// If it is busy, the next free one [default: 8888].
    #[arg(long, value_name = "PORT", alias = "port", hide_short_help = true, help_heading = SESSION)]
    #[serde(alias = "port")]
    pub jupyter_port: Option<Port>,

    /// Neither start Jupyter nor forward a port to it.
    #[arg(long, conflicts_with = "jupyter_port", hide_short_help = true, help_heading = SESSION)]
    pub no_jupyter: bool,

    /// Open Jupyter's address in the browser.
    ///
    /// By xdg-open, on macOS by open.
    #[arg(long, conflicts_with = "no_jupyter", hide_short_help = true, help_heading = SESSION)]
    pub open: bool,

    /// Lead a port on this computer into the container, such as 6006.
    ///
    /// As ssh's -L: PORT alone leads to the same port there, BIND:PORT:HOST:PORT to one of HOST as
    /// the container sees it. It listens on the loopback addresses unless BIND says otherwise (* is
    /// all). It may be given several times, and is there again after a lost connection.
    #[arg(
        short = 'L',
        long = "forward",
        value_name = "PORT[:HOST:PORT]",
        hide_short_help = true,
        help_heading = SESSION
    )]
    #[serde(rename = "forward", deserialize_with = "forward::several")]
    pub forwards: Vec<Forwarding>,

    /// Lead a port in the container to this computer, as ssh's -R.
    ///
    /// Written as for -L; HOST is one that this computer reaches.
    #[arg(
        short = 'R',
        long = "remote-forward",
        value_name = "PORT[:HOST:PORT]",
        hide_short_help = true,
        help_heading = SESSION
    )]
    #[serde(rename = "remote_forward", deserialize_with = "forward::several")]
    pub remote_forwards: Vec<Forwarding>,

    /// Bring a variable along, such as `HF_TOKEN` or `MODE=fast`.
    ///
    /// NAME alone takes its value here. The shell, the command and what Jupyter starts have it; no
    /// disk, image, tag, log or process's arguments do. It may be given several times.
    #[arg(short = 'e', long, value_name = "NAME[=VALUE]", hide_short_help = true, help_heading = SESSION)]
    #[serde(deserialize_with = "reach::several")]
    pub env: Vec<String>,

    /// Bring the variables of this file along, as docker's flag does.
    ///
    /// A line each, NAME=VALUE or NAME; -e outranks it.
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = SESSION)]
    #[serde(deserialize_with = "reach::several")]
    pub env_file: Vec<PathBuf>,

    /// Forward the SSH agent of this computer, as ssh's -A.
    ///
    /// For git and ssh in the container: its keys stay here. It answers as long as this session
    /// lasts, also after a lost connection. Root of the instance and of the container can use it.
    #[arg(short = 'A', long, hide_short_help = true, help_heading = SESSION)]
    pub agent: bool,

    /// Let programs there use this computer's AWS credentials.
    ///
    /// AWS tools find them as in a container of ECS, as long as this session lasts. Long-term keys
    /// stay here and are exchanged for an hour's at a time; temporary ones are passed on. Nothing
    /// is on the drive.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub aws: bool,

    /// Do not take Git's user.name and user.email along.
    ///
    /// Without this flag they hold in the container unless it has its own.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub no_git: bool,

    /// Pull without the logins that `docker login` has left here.
    ///
    /// Without this flag the one at the image's registry, and no other, is sent to the instance for
    /// the pull. It is on no disk there, but root of the instance can read it meanwhile.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub no_registry_login: bool,

    /// Fail where a port is busy, instead of taking another one.
    ///
    /// Also for Jupyter's port. Those on this computer are tried before anything is launched.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub exact_ports: bool,

    /// How long the instance may be idle, such as 30m; then the drive is saved and the instance ends.
    ///
    /// No processor or GPU in use, nothing typed, no traffic, no run: `xdrive help money` has what that is.
    /// Also under --keep, and with nobody there; `none` is for ever. The last one typed counts for the
    /// drive's host [default: none].
    #[arg(long, value_name = "TIME", hide_short_help = true, help_heading = SESSION)]
    pub idle: Option<IdleLimit>,

    /// How often to take a checkpoint of the drive in use, such as 30m.
    ///
    /// A snapshot of what is on it, in case the volume itself is lost; 15s apart at least, 7d at
    /// most [default: never].
    #[arg(long, value_name = "TIME", hide_short_help = true, help_heading = SESSION)]
    pub checkpoint: Option<Checkpoint>,

    /// How long CMD may take to end when its instance is taken.
    ///
    /// It gets SIGTERM, and has `XDRIVE_NOTICE` seconds for a checkpoint before the drive is
    /// closed; 60s at most. It has as long at the end of a lease [default: 30s].
    #[arg(long, value_name = "TIME", hide_short_help = true, help_heading = SESSION)]
    pub notice: Option<Ending>,

    /// How much of each output of a command its host keeps, such as `64M`.
    #[arg(skip)]
    pub spool: Option<Spool>,

    /// Let these addresses log in, such as 203.0.113.0/24.
    ///
    /// In place of this computer's own address; it may be given several times.
    #[arg(long, value_name = "CIDR", hide_short_help = true, help_heading = REACH)]
    #[serde(deserialize_with = "reach::several")]
    pub cidr: Vec<Cidr>,

    /// Let others reach a TCP port of the host, all of them or those of CIDR.
    ///
    /// What listens there is yours: a container of --docker that publishes the port. It may be given several
    /// times; the drive keeps its open ports, on every host, until others are given.
    #[arg(long, value_name = "PORT[:CIDR]", hide_short_help = true, help_heading = REACH)]
    #[serde(skip)]
    pub ingress: Option<Vec<OpenPort>>,

    /// Close the drive's open ports.
    #[arg(long, conflicts_with = "ingress", hide_short_help = true, help_heading = REACH)]
    #[serde(skip)]
    pub no_ingress: bool,

    /// Give the drive's hosts this Elastic IP address, so that a name in DNS stays right.
    ///
    /// Each host gets it before the first login; the drive keeps it until another one is given.
    #[arg(long, value_name = "EIPALLOC", hide_short_help = true, help_heading = REACH)]
    #[serde(skip)]
    pub address: Option<AllocationId>,

    /// Give the drive's next host an address of EC2's own.
    #[arg(long, conflicts_with = "address", hide_short_help = true, help_heading = REACH)]
    #[serde(skip)]
    pub no_address: bool,

    /// Connect through this command, as by ssh's `ProxyCommand`.
    ///
    /// Through its input and output, to the private address: %h is the address, %p the port, %i the
    /// instance's id, %% a percent sign. Then only the addresses of --cidr are let in.
    #[arg(long, value_name = "COMMAND", hide_short_help = true, help_heading = REACH)]
    pub proxy_command: Option<ProxyCommand>,

    /// Whether hosts fetch at once what the last sessions read from the drive at their start; they do by default.
    #[arg(skip)]
    pub hot: Option<bool>,

    /// The URL of a service that answers with this computer's address.
    #[arg(skip)]
    pub address_service: Option<String>,

    /// Have each GPU of the host be so many resources of Docker's Swarm: 1 to 16.
    ///
    /// A service that asks for a generic resource `gpu` then gets one of them, GPU-UUID_1 and so on; the
    /// GPU's memory is shared by all, and nothing divides it. For the services of a class on workers.
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = LAUNCH)]
    pub slices: Option<Slices>,

    /// The subnet to launch in.
    ///
    /// Its zone and its VPC are the drive's then [default: the default VPC, any zone].
    #[arg(long, value_name = "SUBNET", hide_short_help = true, help_heading = REACH)]
    pub subnet: Option<SubnetId>,

    /// The IAM role of the instance, by its instance profile.
    ///
    /// Its name or its ARN [default: none].
    #[arg(long, value_name = "PROFILE", hide_short_help = true, help_heading = REACH)]
    pub instance_profile: Option<InstanceProfile>,

    /// Flags of this session alone.
    #[command(flatten)]
    #[serde(skip)]
    pub once: Once,
}
}
