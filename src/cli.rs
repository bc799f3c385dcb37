//! What can be typed.
//!
//! Only shapes are checked here (a name is a name, a size a number); what they mean is `config`'s.
//! `--help`, the man page and the shell completions are all made from this file.

mod launch;
mod reach;
mod selftest;
mod speed;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, SIZES};
use crate::drive::DriveName;
use crate::drive::stuck::Head;
use crate::ec2::{InstanceId, KeyArn, Partition, SubnetId};
use crate::ssh::escape;

pub use reach::Reach;
pub use speed::Speed;

pub use launch::Launch;
pub use selftest::Selftest;

/// What `--help` and the manual page end with: parts with a title each, in lines that fit a terminal
/// of 80 columns with the manual page's margin. The exit codes are the README's.
const END: &str = "\
Files:
  ~/.config/xdrive/config.toml  what most flags of connect set, under their
                                names (max_price for --max-price); flags
                                outrank it, and it outranks what the drive
                                carries
  ~/.config/xdrive/id_ed25519   the key that hosts know this computer by;
                                made when there is none

Exit codes:
  the shell's or the command's own; 128 + n if signal n ended it; otherwise:
    1  something went wrong that no other line covers
    2  the command line, a name or an id cannot be right
   69  something needed is not here: a program, an image, a drive asked for
       by name, an instance that can be used, a GPU's driver
   75  not now: the drive is in use, there is no capacity, the save is
       unfinished (also when the command's own code was 0), EC2 took the
       instance back and the session did not go on (saved), or a registry
       takes no more pulls for now
   76  stuck: nothing was destroyed, a person has to choose
   77  not allowed: --local needs root, another caller's drive --shared; a
       right or credentials are missing, AWS refuses credentials or an
       encryption key, a registry wants a login
   78  a configuration, key or state file cannot be used as it is
  129  ended by a closed terminal, and 143 by SIGTERM; saved
  130  ended by Ctrl-C, not the command's own; undone or saved
  255  the shell was ended by ~. (saved), or its connection was lost";

/// What the help of `connect` ends with.
fn escapes() -> String {
    let list = escape::HELP.replace('\r', "");
    list.trim_start_matches("~?\n").to_owned()
}

/// Where the flags stand that say which EC2 is used: behind each command's own.
const WHICH: &str = "Which EC2";

/// A portable drive that moves between AWS instances, with its programs, containers and notebooks.
#[derive(Debug, Parser)]
#[command(
    name = "xdrive",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_long_help = END
)]
pub struct Cli {
    /// Use the EC2 in a folder on this computer instead of AWS (Linux, root).
    #[arg(long, global = true, help_heading = WHICH)]
    pub local: bool,

    /// Where the EC2 in a folder keeps its state [default: ~/.local/share/xdrive/local].
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "XDRIVE_LOCAL_DIR",
        help_heading = WHICH
    )]
    pub local_dir: Option<PathBuf>,

    /// The AWS profile whose credentials and region are used [default: as for every AWS tool: what
    /// the environment says, else the profile named default].
    #[arg(
        long,
        global = true,
        value_name = "PROFILE",
        conflicts_with = "local",
        help_heading = WHICH
    )]
    pub profile: Option<String>,

    /// The AWS region, such as us-east-1 [default: the environment's, else the profile's].
    #[arg(
        long,
        global = true,
        value_name = "REGION",
        conflicts_with = "local",
        help_heading = WHICH
    )]
    pub region: Option<String>,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring the drive up on an instance and open a shell in its container; save it at the end.
    #[command(after_long_help = escapes())]
    Connect(Box<Connect>),
    /// Show every drive: where it is, its generations and snapshots, and what is billed.
    List(List),
    /// Save a drive from anywhere, without a shell: close, snapshot, terminate, delete.
    Stop(Stop),
    /// Show what spot instances cost now, by zone.
    Prices(Prices),
    /// Finish what killed and forgotten sessions left, clear away what nobody needs, list the rest.
    Gc(Gc),
    /// Look whether all that xdrive needs is here: credentials, rights, network, clock, key.
    Doctor,
    /// Ask the account what only it can prove: launch hosts, look at them, leave nothing.
    #[command(after_long_help = selftest::END)]
    Selftest(Box<Selftest>),
    /// Write the IAM policy that allows what xdrive does, and no more, to standard output.
    Policy {
        /// Also allow to give this role to instances (`--instance-profile`).
        #[arg(long, value_name = "ARN")]
        role: Option<String>,

        /// Also allow what disks take that are encrypted with this key of the account's own, and
        /// not with aws/ebs (repeatable).
        #[arg(long, value_name = "ARN")]
        kms_key: Vec<KeyArn>,

        /// The partition that the account is in: aws, aws-us-gov, aws-cn or aws-eusc [default: that
        /// of the ARNs given here, else of the region that is set, else aws].
        #[arg(long, value_name = "PARTITION")]
        partition: Option<Partition>,

        /// Write instead what `xdrive selftest` asks besides: IAM's simulation, Session
        /// Manager, and Fault Injection Service.
        #[arg(long, conflicts_with_all = ["role", "kms_key"])]
        selftest: bool,
    },
    /// The EC2 in a folder: for other tools, and to see what AWS does to spot instances.
    #[command(subcommand)]
    Local(Local),
    /// Write the manual page to standard output, for `man -l`.
    Man,
    /// Write a completion script for a shell to standard output.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

fn sizes() -> std::ops::RangeInclusive<i64> {
    i64::from(*SIZES.start())..=i64::from(*SIZES.end())
}

/// `xdrive connect`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and any of them goes with any other"
)]
pub struct Connect {
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

    /// When EC2 takes the instance back, go on on another one without asking: on demand before spot,
    /// unless --max-price or --fallback none is given. (A command is never run a second time: xdrive
    /// then ends with 75.)
    #[arg(long)]
    pub resume: bool,

    /// The subnet to launch in; its zone and its VPC are the drive's then [default: the default VPC,
    /// any zone].
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

    // Each begins a section of the help: what follows would be in it too.
    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,

    /// What to launch.
    #[command(flatten)]
    pub launch: Launch,
}

/// `xdrive list`.
#[derive(Debug, Args)]
pub struct List {
    /// Only this drive.
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// `xdrive stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// The drive to save.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// Save it although another caller (IAM user or role) used it last, or uses it now.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `xdrive prices`.
#[derive(Debug, Args)]
pub struct Prices {
    /// The instance types, such as m5.large [default: those of the configuration and of your
    /// drives, else those with 2 CPUs and 4 GiB].
    #[arg(value_name = "TYPE", value_parser = config::launch::types)]
    pub types: Vec<String>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// `xdrive gc`.
#[derive(Debug, Args)]
pub struct Gc {
    /// Only this drive.
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// Say what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Delete the saves of each drive but for the newest N [default: all stay]. Superseded
    /// checkpoints go either way.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub snapshots: Option<u16>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `xdrive local …`.
#[derive(Debug, Subcommand)]
pub enum Local {
    /// Serve its API on a loopback port until interrupted.
    Serve {
        /// The port; 0 takes a free one.
        #[arg(long, value_name = "PORT", default_value_t = 0)]
        port: u16,
    },
    /// Print the environment that points other tools at the running server.
    Env,
    /// Take a spot instance back, as AWS does: with a notice, then like a power cut.
    Interrupt {
        /// The instance: its id, as `xdrive --local list` shows it.
        #[arg(value_name = "INSTANCE")]
        instance: InstanceId,
        /// How long before its end it is told, in seconds; 0 ends it without a word.
        #[arg(
            long = "in",
            value_name = "SECONDS",
            default_value_t = 120,
            value_parser = clap::value_parser!(u64).range(..=86_400)
        )]
        seconds: u64,
    },
    /// Recommend to leave a spot instance, as AWS does when it may be interrupted soon.
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
}
