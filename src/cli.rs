//! The command line: the global flags and the commands.
//!
//! `--help`, the man page and the shell completions are made from this file and from the arguments of
//! each command.

mod man;

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::cloud::Which;
use crate::commands::{
    Context, connect, doctor, gc, list, local, policy, prices, print, selftest, stop,
};
use crate::ec2::Account;
use crate::failure::Failure;

/// The end of `--help` and of the manual page: sections with a title each, in lines that fit a
/// terminal of 80 columns with the manual page's margin. The exit codes are the README's.
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

/// The section of the global flags, behind each command's own.
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
    #[command(after_long_help = connect::escapes())]
    Connect(Box<connect::Args>),
    /// Show every drive: where it is, its generations and snapshots, and what is billed.
    List(list::Args),
    /// Save a drive from anywhere, without a shell: close, snapshot, terminate, delete.
    Stop(stop::Args),
    /// Show what spot instances cost now, by zone.
    Prices(prices::Args),
    /// Finish what killed and forgotten sessions left, clear away what nobody needs, list the rest.
    Gc(gc::Args),
    /// Look whether all that xdrive needs is here: credentials, rights, network, clock, key.
    Doctor,
    /// Ask the account what only it can prove: launch hosts, look at them, leave nothing.
    #[command(after_long_help = selftest::END)]
    Selftest(Box<selftest::Args>),
    /// Write the IAM policy that allows what xdrive does, and no more, to standard output.
    Policy(policy::Args),
    /// The EC2 in a folder: for other tools, and to see what AWS does to spot instances.
    #[command(subcommand)]
    Local(local::Command),
    /// Write the manual page to standard output, for `man -l`.
    Man,
    /// Write a completion script for a shell to standard output.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

impl Cli {
    /// Runs the command. Returns the exit code.
    pub fn run(self) -> Result<u8, Failure> {
        let (context, command) = self.context();
        match command {
            Command::Connect(args) => connect::run(*args, &context),
            Command::List(args) => list::run(&args, &context),
            Command::Stop(args) => stop::run(args, &context),
            Command::Prices(args) => prices::run(&args, &context),
            Command::Gc(args) => gc::run(&args, &context),
            Command::Doctor => doctor::run(&context),
            Command::Selftest(args) => selftest::run(*args, &context),
            Command::Policy(args) => policy::run(&args, &context),
            Command::Local(command) => local::run(command, &context),
            Command::Man => print(&man::page(Self::command()).map_err(anyhow::Error::from)?),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "xdrive", &mut script);
                print(&String::from_utf8_lossy(&script))
            }
        }
    }

    /// The global flags' context, and the command.
    #[must_use]
    pub fn context(self) -> (Context, Command) {
        let account = Account {
            profile: self.profile,
            region: self.region,
        };
        let which = if self.local {
            Which::Local
        } else {
            Which::Account(account.clone())
        };
        let context = Context {
            which,
            account,
            local_dir: self.local_dir,
        };
        (context, self.command)
    }
}
