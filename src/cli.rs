//! The command line: the global flags and the commands.
//!
//! `--help`, the man page and the shell completions are made from this file and from the arguments of
//! each command.

mod complete;
mod drives;
mod help;
mod logging;
mod man;
mod pager;
mod topic;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    Context, adopt, attach, cat, code, connect, containers, copy, cost, cp, delete, diff, doctor,
    flags, fork, freeze, gc, list, local, log, logs, note, policy, ports, prices, print, proxy, ps,
    recipe, rename, resize, run, selftest, share, ssh_config, stop, sync, tend, workers,
};
use crate::ec2::Account;
use crate::failure::Failure;
use crate::report::{self, Text};

/// The exit codes, as the topic of that name has them: a section of `--help` and of the manual
/// page, in lines that fit a terminal of 80 columns with the manual page's margin.
const EXIT_CODES: &str = "\
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
  130  ended by Ctrl-C, not the command's own; cancelled or saved
  255  the shell was ended by ~. (saved), or its connection was lost";

/// The files, likewise.
const FILES: &str = "\
Files:
  ~/.config/xdrive/config.toml  what most flags of connect set, under their
                                names (max_price for --max-price); flags
                                outrank it, and it outranks what the drive
                                carries: xdrive help config
  ~/.config/xdrive/id_ed25519   the key that hosts know this computer by;
                                made when there is none";

/// The sections of the global flags, behind each command's own.
const WHICH: &str = "Which EC2";
const OUTPUT: &str = "What is printed and asked";

/// A portable drive that moves between AWS instances.
///
/// With its programs, containers and notebooks: set up on a small CPU machine, train on a GPU.
#[derive(Debug, Parser)]
#[command(
    name = "xdrive",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    styles = Styles::plain()
)]
pub struct Cli {
    /// Use the EC2 in a folder on this computer (Linux, root).
    ///
    /// Instead of AWS. So do `XDRIVE_LOCAL=1`, `cloud = "local"` in the configuration, and
    /// `xdrive local COMMAND`.
    #[arg(long, global = true, help_heading = WHICH)]
    pub local: bool,

    /// Where the EC2 in a folder keeps its state.
    ///
    /// [default: ~/.local/share/xdrive/local].
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        hide_short_help = true,
        help_heading = WHICH
    )]
    pub local_dir: Option<PathBuf>,

    /// The AWS profile whose credentials and region are used.
    ///
    /// [default: as for every AWS tool: what the environment says, else the profile named default].
    #[arg(
        long,
        global = true,
        value_name = "PROFILE",
        conflicts_with = "local",
        hide_short_help = true,
        help_heading = WHICH
    )]
    pub profile: Option<String>,

    /// The AWS region, such as us-east-1.
    ///
    /// [default: the environment's, else the profile's].
    #[arg(
        long,
        global = true,
        value_name = "REGION",
        conflicts_with = "local",
        hide_short_help = true,
        help_heading = WHICH
    )]
    pub region: Option<String>,

    /// Print no steps: only what asks for attention, and data.
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        hide_short_help = true,
        help_heading = OUTPUT
    )]
    pub quiet: bool,

    /// Print more: -v what happens on hosts, -vv calls to AWS.
    ///
    /// -vvv all; `XDRIVE_LOG` filters more finely.
    #[arg(
        short,
        long,
        global = true,
        action = ArgAction::Count,
        hide_short_help = true,
        help_heading = OUTPUT
    )]
    pub verbose: u8,

    /// When to colour words: auto, always or never.
    ///
    /// Those that begin errors, warnings and hints, and states in `list`. By itself in a terminal,
    /// unless `NO_COLOR` is set.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true,
        hide_short_help = true,
        help_heading = OUTPUT
    )]
    pub color: report::Color,

    /// Answer every question with yes.
    ///
    /// Such as whether to launch on demand where no spot is to be had, or to delete a drive.
    #[arg(short, long, global = true, hide_short_help = true, help_heading = OUTPUT)]
    pub yes: bool,

    /// Print help: -h the flags for a first day, --help all.
    #[arg(
        short,
        long,
        global = true,
        action = ArgAction::Help,
        hide_short_help = true,
        help_heading = OUTPUT
    )]
    help: Option<bool>,

    /// Print xdrive's version.
    #[arg(
        short = 'V',
        long,
        action = ArgAction::Version,
        hide_short_help = true,
        help_heading = OUTPUT
    )]
    version: Option<bool>,

    /// The flags that change nothing about a drive that is up.
    #[arg(skip)]
    ineffective: flags::Ineffective,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What is done with drives.
    #[command(flatten)]
    Drive(DriveCommand),
    /// Print the IAM policy that xdrive needs.
    ///
    /// It allows what xdrive does, and no more.
    Policy(policy::Args),
    /// Write the files of something bigger: a hub for a class.
    ///
    /// They are scripts and settings around xdrive's own commands, and yours from then on.
    Recipe(recipe::Args),
    /// The EC2 in a folder: for other tools, and notices of spot.
    ///
    /// And to see what AWS does to spot instances. Every command on drives works behind it, too:
    /// `xdrive local connect demo` is `xdrive --local connect demo`.
    #[command(subcommand)]
    Local(LocalCommand),
    /// Explain a topic or a command, or list the topics.
    Help {
        /// A topic, or a command.
        #[arg(value_name = "TOPIC|COMMAND")]
        words: Vec<String>,
    },
    /// Print a manual page, for `man -l`.
    Man {
        /// The page of a topic of `xdrive help` [default: xdrive's own].
        #[arg(value_name = "TOPIC")]
        topic: Option<String>,
        /// Write all pages into this directory.
        #[arg(long, value_name = "DIR", conflicts_with = "topic")]
        dir: Option<PathBuf>,
    },
    /// Print the completion script of a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// `xdrive local …`: the functions of the EC2 in a folder, and any command on it.
#[derive(Debug, Subcommand)]
pub enum LocalCommand {
    /// What only the EC2 in a folder has.
    #[command(flatten)]
    Folder(local::Command),
    /// `xdrive local connect` is `xdrive --local connect`.
    #[command(flatten)]
    Drive(DriveCommand),
}

/// What is done with drives, on whichever EC2.
#[derive(Debug, Subcommand)]
pub enum DriveCommand {
    /// Bring a drive up, with a shell in its container.
    ///
    /// On an instance that is launched for it; at the end the drive is saved: closed, made a
    /// snapshot, and the instance terminated.
    #[command(visible_alias = "ssh", after_long_help = connect::escapes())]
    Connect(Box<connect::Args>),
    /// Run a command that outlives this computer.
    ///
    /// As `connect NAME -- CMD`; but the host is kept for it, at most for --max. With -d xdrive
    /// leaves at once. When the command has ended and no session is attached, the host closes the
    /// drive and switches itself off.
    Run(Box<run::Args>),
    /// Come back to a command that runs on a drive.
    ///
    /// With its output, as far as its host keeps it, and its exit code.
    Attach(attach::Args),
    /// Show what a command printed.
    Logs(logs::Args),
    /// Show which commands run on drives that are up.
    Ps(ps::Args),
    /// Show the containers of a drive, or remove one.
    Containers(containers::Args),
    /// Show which ports something in a drive's container listens on.
    ///
    /// Where it listens, and its program's name. `~#` in a shell shows what that session forwards.
    Ports(ports::Args),
    /// Show every drive, and what is billed; or files on one.
    ///
    /// Where it is, its generations and snapshots.
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Show a drive's generations, and the notes on them.
    ///
    /// When and where each was saved, how long that ran and what it cost, as its tags record it.
    Log(log::Args),
    /// Show what each drive has cost, by day and kind.
    ///
    /// From what EC2 lists of it: its snapshots, each with the record of its session, and what is up.
    Cost(cost::Args),
    /// Show which files differ between two generations of a drive.
    ///
    /// They are read from their snapshots, without an instance.
    Diff(diff::Args),
    /// Write a note on a drive's newest generation, or on another one.
    ///
    /// `xdrive log` shows it, and `connect -m` writes it beforehand.
    Note(note::Args),
    /// Save a drive from anywhere, without a shell.
    ///
    /// Close, snapshot, terminate, delete.
    #[command(visible_alias = "save")]
    Stop(stop::Args),
    /// Save a drive with the commands that run on it, which go on with it.
    ///
    /// Those that were begun with --freeze, each where it was. The others are ended.
    Freeze(freeze::Args),
    /// Delete a drive, or the save of one of its generations.
    ///
    /// Shows what goes, and asks for the name. Never a drive that has an instance or a volume.
    Delete(delete::Args),
    /// Give a saved drive another name.
    ///
    /// Its snapshots get the name, the newest first. Never a drive that has an instance or a volume.
    Rename(rename::Args),
    /// Make a drive larger or faster, also while it is in use.
    ///
    /// EC2 changes its volume, and its host the file system on it.
    Resize(resize::Args),
    /// Make a new drive that begins as another one was.
    ///
    /// At once, without an instance: it has the files of its newest save, or of generation N's, and
    /// both go on by themselves.
    Fork(fork::Args),
    /// Copy a drive to another region.
    ///
    /// That of --region, by its snapshot, without an instance.
    Copy(copy::Args),
    /// Make a drive of a snapshot or volume that is none yet.
    ///
    /// Of a copy: such as the drives of the first xdrive, or any ext4. The original stays as it is.
    Adopt(adopt::Args),
    /// Print files of a drive, also of one that is asleep.
    ///
    /// Its snapshot is read then: no instance is launched.
    Cat(cat::Args),
    /// Copy files to a drive that is up, or from any.
    ///
    /// What is there already is not copied again, and what was begun goes on.
    #[command(override_usage = cp::USAGE)]
    Cp(cp::Args),
    /// Send what differs in a folder to a drive that is up.
    ///
    /// But for what git ignores there, and the repository itself.
    Sync(sync::Args),
    /// Open VS Code in the container of a drive that is up.
    ///
    /// By its Remote - SSH extension, after what `xdrive ssh-config --write` does.
    Code(code::Args),
    /// Let ssh, scp, rsync, git and VS Code into drives.
    ///
    /// Prints what OpenSSH's client needs for hosts called NAME.xdrive, or writes it.
    SshConfig(ssh_config::Args),
    /// Connect an SSH client to a drive that is up: its `ProxyCommand`.
    ///
    /// What `xdrive ssh-config` writes calls it.
    #[command(hide = true)]
    Proxy(proxy::Args),
    /// Show what spot instances cost now, by zone.
    Prices(prices::Args),
    /// Finish what was left, clear away, list the rest.
    ///
    /// What killed and forgotten sessions left, what is unused, and what the rest costs.
    Gc(gc::Args),
    /// Make, show and delete file systems for many machines at once.
    ///
    /// Those of Elastic File System (EFS), outside of every drive.
    #[command(subcommand)]
    Share(share::Args),
    /// Go on with runs (`run --restart`) whose instance was lost.
    Tend(tend::Args),
    /// Have throwaway copies of a drive in one network with it.
    ///
    /// For a computation on several machines: each begins with the drive's newest save, runs CMD, and ends
    /// with that. `xdrive help workers` has the engines' commands.
    Workers(Box<workers::Args>),
    /// Check what xdrive needs: credentials, rights, network.
    ///
    /// And this computer's clock, key and configuration.
    Doctor(doctor::Args),
    /// Ask the account what only it can prove: hosts, rights.
    ///
    /// Launches hosts, looks at them, leaves nothing.
    #[command(after_long_help = selftest::END)]
    Selftest(Box<selftest::Args>),
}

/// Parses the command line `words`, the program's name first, and runs its command. Returns the exit
/// code; a failure has been printed.
#[must_use]
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    match complete::answer(&words) {
        Ok(true) => return 0,
        Ok(false) => {}
        Err(failure) => return exit_code(Err(failure), false),
    }
    let json = usage::wants_json(&words);
    let parsed = help::for_screen(command(), &words).try_get_matches_from(&words);
    let read = |matches| {
        Ok((
            Cli::from_arg_matches(&matches)?,
            flags::ineffective(&matches),
        ))
    };
    let result = match parsed.and_then(read) {
        Ok((cli, ineffective)) => {
            let cli = Cli { ineffective, ..cli };
            report::set_quiet(cli.quiet);
            report::set_color(cli.color);
            logging::begin(cli.verbose).and_then(|()| cli.run())
        }
        Err(error) => {
            report::set_color(usage::color(&words));
            match usage::answer(&error, &words) {
                Some((text, 0)) => print(&text),
                Some((text, code)) => {
                    report::error(&Text::block(text.trim_end()));
                    Ok(code)
                }
                None => Err(usage::failure(&error, &words)),
            }
        }
    };
    exit_code(result, json)
}

/// The exit code. A failure is printed, as text or as a line of `json`.
fn exit_code(result: Result<u8, Failure>, json: bool) -> u8 {
    result.unwrap_or_else(|failure| {
        let code = failure.exit.code();
        report::error(&failure.shown(json, code));
        code
    })
}

/// The definition of the command line, from which help, manual page and completions are made.
/// Commands on drives are hidden below `local`, where they are the same.
fn definition() -> clap::Command {
    let end = format!("{}\n\n{FILES}\n\n{EXIT_CODES}", help::environment());
    complete::with_completers(Cli::command())
        .after_long_help(end)
        .mut_subcommand("local", |local| {
            local.mut_subcommands(|command| {
                let is_drives = DriveCommand::has_subcommand(command.get_name());
                let is_hidden = command.is_hide_set();
                command.hide(is_drives || is_hidden)
            })
        })
}

/// The definition, with what the help of each command ends with.
fn command() -> clap::Command {
    help::with_ends(definition())
}

impl Cli {
    /// Runs the command. Returns the exit code.
    pub fn run(self) -> Result<u8, Failure> {
        let (context, command) = self.context();
        match command {
            Command::Drive(command) | Command::Local(LocalCommand::Drive(command)) => {
                command.run(&context)
            }
            Command::Local(LocalCommand::Folder(command)) => local::run(command, &context),
            Command::Policy(args) => policy::run(&args, &context),
            Command::Recipe(args) => recipe::run(&args),
            Command::Help { words } => help::explain(&words),
            Command::Man { dir: Some(dir), .. } => man::write_all(&dir),
            Command::Man { topic, .. } => man::print_page(topic.as_deref()),
            Command::Completions { shell } => complete::register(shell),
        }
    }

    /// The global flags' context, and the command.
    #[must_use]
    pub fn context(self) -> (Context, Command) {
        let account = Account {
            profile: self.profile,
            region: self.region,
        };
        let is_local = self.local || matches!(self.command, Command::Local(_));
        let context = Context {
            yes: self.yes,
            verbose: self.verbose,
            ineffective: self.ineffective,
            ..Context::new(is_local, account, self.local_dir)
        };
        (context, self.command)
    }
}
