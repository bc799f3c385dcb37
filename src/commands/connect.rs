//! `xdrive connect`: one session.

use std::sync::Arc;
use std::time::Duration;

use super::flags::{self, Along, Launch, Places, Reach, SESSION, Speed};
use super::{Context, key, local};
use crate::cloud::{self, Cloud, Which};
use crate::config::launch::LaunchOptions;
use crate::config::{self, Asked, Config, Forwarding, GitUser, Options, Paths, quantity};
use crate::drive::stuck::Head;
use crate::drive::tags::Note;
use crate::failure::{Exit, Failure};
use crate::ids::{ContainerName, DriveAt, DriveIn, SubnetId};
use crate::report::Report;
use crate::session::{self, Idle, Named, Request, Task};
use crate::ssh::escape;

/// The list of escapes, with which the help of `connect` ends.
pub(crate) fn escapes() -> String {
    let list = escape::HELP.replace('\r', "");
    list.trim_start_matches("~?\n").to_owned()
}

/// The sections of `--help`, in its order. Flags that a first day needs are in none: they stand at
/// the top, and are all that `-h` shows.
const DRIVE: &str = "The drive";

/// `xdrive connect`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and any of them goes with any other"
)]
pub struct Args {
    /// The drive: letters, digits, `.`, `_`, `-`.
    ///
    /// 64 at most, the first a letter or a digit. With @N the session works on a fork of generation N,
    /// the drive NAME.at-N, which is made if there is none. With /CONTAINER it is in a container of that
    /// name beside the drive's main one, which --image makes the first time.
    #[arg(value_name = "NAME[@N][/CONTAINER]")]
    pub drive: DriveIn<DriveAt>,

    // Before the others, because each begins a section of the help that any argument after it would
    // be in.
    /// What to launch.
    #[command(flatten)]
    pub launch: Launch,

    /// The drive's size, such as 200G or 1T; it can grow.
    ///
    /// A plain number is in GiB, and G, GB and GiB are the same. An existing drive grows to it and
    /// never shrinks [default: the drive's, else 32G; with --local, where all drives share one disk,
    /// 8G].
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = None)]
    pub size: Option<u32>,

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
    #[arg(long, value_name = "TIME", value_parser = quantity::lease, help_heading = None)]
    pub keep: Option<Duration>,

    /// Go on elsewhere, unasked, if EC2 takes the instance back.
    ///
    /// On demand before spot, unless --max-price or --fallback none is given. A command is never
    /// run a second time: xdrive then ends with 75.
    #[arg(long, help_heading = None)]
    pub resume: bool,

    /// Print what would be launched, with prices; change nothing.
    #[arg(long, help_heading = None)]
    pub dry_run: bool,

    /// How fast the drive's volume is.
    #[command(flatten)]
    pub speed: Speed,

    /// What the container has of the host.
    #[command(flatten)]
    pub places: Places,

    /// With --dry-run or `run -d` one JSON document instead of text.
    ///
    /// With or without, a failure is one line of JSON at the end of standard error.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub json: bool,

    /// Go on from this volume or snapshot, or begin anew (`empty`).
    ///
    /// Whatever else there is, is kept as NAME.fork-N.
    #[arg(
        long,
        value_name = "VOLUME|SNAPSHOT|empty",
        hide_short_help = true,
        help_heading = DRIVE
    )]
    pub from: Option<Head>,

    /// Try something on the saved drive, and save nothing of it.
    ///
    /// What the session changes is thrown away at its end. It asks first; --yes answers. The drive
    /// must be saved and not in use; nobody joins, ~d is refused, and nothing goes on without this
    /// computer longer than 15 minutes.
    #[arg(
        long,
        conflicts_with_all = ["from", "keep", "resume", "checkpoint", "note", "dry_run"],
        hide_short_help = true,
        help_heading = DRIVE
    )]
    pub discard: bool,

    /// Use the drive although another caller has or had it.
    ///
    /// Callers are IAM users and roles.
    #[arg(long, hide_short_help = true, help_heading = DRIVE)]
    pub shared: bool,

    /// The port on this computer that leads to Jupyter.
    ///
    /// If it is busy, the next free one [default: 8888].
    #[arg(
        long,
        value_name = "PORT",
        alias = "port",
        value_parser = quantity::port,
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub jupyter_port: Option<u16>,

    /// Neither start Jupyter nor forward a port to it.
    #[arg(
        long,
        conflicts_with = "jupyter_port",
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub no_jupyter: bool,

    /// Open Jupyter's address in the browser.
    ///
    /// By xdg-open, on macOS by open.
    #[arg(
        long,
        conflicts_with = "no_jupyter",
        hide_short_help = true,
        help_heading = SESSION
    )]
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
    pub remote_forwards: Vec<Forwarding>,

    /// What comes along into the container.
    #[command(flatten)]
    pub along: Along,

    /// Fail where a port is busy, instead of taking another one.
    ///
    /// Also for Jupyter's port. Those on this computer are tried before anything is launched.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub exact_ports: bool,

    /// How often to take a checkpoint of the drive in use, such as 30m.
    ///
    /// A snapshot of what is on it, in case the volume itself is lost; 15s apart at least, 7d at
    /// most [default: never].
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::checkpoint,
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub checkpoint: Option<Duration>,

    /// How long CMD may take to end when its instance is taken.
    ///
    /// It gets SIGTERM, and has `XDRIVE_NOTICE` seconds for a checkpoint before the drive is
    /// closed; 60s at most. It has as long at the end of a lease [default: 30s].
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::ending,
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub notice: Option<Duration>,

    /// Do not join a session that has the drive elsewhere.
    ///
    /// End with code 75 instead.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub no_join: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,

    /// The subnet to launch in.
    ///
    /// Its zone and its VPC are the drive's then [default: the default VPC, any zone].
    #[arg(long, value_name = "SUBNET", hide_short_help = true, help_heading = flags::REACH)]
    pub subnet: Option<SubnetId>,

    /// The IAM role of the instance, by its instance profile.
    ///
    /// Its name or its ARN [default: none].
    #[arg(
        long,
        value_name = "PROFILE",
        value_parser = config::instance_profile,
        hide_short_help = true,
        help_heading = flags::REACH
    )]
    pub instance_profile: Option<String>,

    /// Give CMD a terminal, as ssh's -t: for htop, vim or a prompt of Python.
    ///
    /// Without it CMD's input, output and errors are streams of bytes, each its own. With it they are
    /// this terminal, with the escapes of a shell; ~d leaves it running, and the next shell on the
    /// drive is at it again.
    #[arg(
        short = 't',
        long,
        requires = "command",
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub terminal: bool,

    /// A note on what this session changes, which `xdrive log` shows.
    ///
    /// One line of at most 256 characters, in a tag of the drive's volume and snapshot.
    #[arg(
        short = 'm',
        long,
        value_name = "TEXT",
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub note: Option<Note>,

    /// Run the shell without a terminal, as ssh's -T.
    ///
    /// It runs the commands that it reads from standard input, such as a script of this computer,
    /// and nothing is added to what they print.
    #[arg(
        short = 'T',
        long,
        conflicts_with_all = ["terminal", "command"],
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub no_terminal: bool,

    /// Run this in the container instead of a shell.
    ///
    /// Its input, output and exit code are xdrive's.
    #[arg(last = true, value_name = "CMD", help_heading = None)]
    pub command: Vec<String>,
}

/// Runs a session. Returns its exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    begin(request(args, &paths)?, &paths, context)
}

/// Runs the session of `request`. Returns its exit code.
pub(super) fn begin(mut request: Request, paths: &Paths, context: &Context) -> Result<u8, Failure> {
    request.yes = context.yes;
    request.idle = context.idle.clone();
    let which = context.which(paths)?;
    request.check(&which.command(paths))?;
    super::block_on(async {
        if let Which::Local = which
            && !request.dry_run
            && let Some(code) = local::offer(paths, context.yes).await?
        {
            return Ok(code);
        }
        if request.options.aws && !request.dry_run {
            let chain = cloud::credentials(&context.account, &which.command(paths)).await?;
            // What cannot be had is known before anything is launched.
            chain.document().await?;
            request.credentials = Some(Arc::new(chain));
        }
        let cloud = Cloud::open(&which, paths).await?;
        let names = super::names(&cloud, paths).filter(|_| !request.dry_run);
        let drive = request.drive.clone();
        if !request.dry_run
            && let Some(of) = request.fork_of.take()
        {
            let code = fork(&request, &cloud, paths, of).await?;
            if code != 0 {
                return Ok(code);
            }
        }
        let code = session::connect(request, cloud, key(paths)?).await?;
        if let Some(names) = names {
            names.add(&drive);
        }
        Ok(code)
    })
}

/// Makes the drive of `request`, a fork of `of`, if there is none. Returns the exit code.
async fn fork(request: &Request, cloud: &Cloud, paths: &Paths, of: DriveAt) -> Result<u8, Failure> {
    let drive = &request.drive;
    let fork = super::request(drive.clone(), request.shared, request.options.reach.clone());
    session::fork_once(fork, cloud.clone(), key(paths)?, of).await
}

/// What is typed about a container is about the one with a name, if one is named, and else about the
/// main one.
fn divided(
    container: Option<ContainerName>,
    image: Option<String>,
    places: config::Places,
) -> (Option<Named>, Option<String>, config::Places) {
    match container {
        Some(name) => {
            let named = Named {
                name,
                image,
                places,
            };
            (Some(named), None, config::Places::default())
        }
        None => (None, image, places),
    }
}

/// The request: flags over configuration.
pub fn request(args: Args, paths: &Paths) -> Result<Request, Failure> {
    let launch = args
        .launch
        .options()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let config = Config::read(paths)?;
    let caller = |name: &str| std::env::var_os(name);
    let mut variables = config.variables(&caller).map_err(|error| {
        let error = error.context("the variables that the configuration brings along");
        Failure::new(Exit::Config, error).hint("xdrive help config lists its keys")
    })?;
    let asked = Asked {
        files: &args.along.env_file,
        variables: &args.along.env,
        is_strict: true,
    };
    variables.add(asked, &caller).map_err(|error| {
        Failure::new(Exit::Usage, error).hint("-e NAME=VALUE, or -e NAME for one that is set here")
    })?;
    let wants_agent = args.along.agent || config.agent;
    let agent = match wants_agent.then(|| config::agent(&caller)).transpose() {
        Ok(agent) => agent,
        Err(error) if args.along.agent => {
            let hint = "eval \"$(ssh-agent)\" && ssh-add starts one; without -A none is needed";
            return Err(Failure::new(Exit::Unavailable, error).hint(hint));
        }
        Err(error) => {
            Report::stderr().warn(&format!("no agent is forwarded: {error:#}"));
            None
        }
    };
    let DriveIn { drive, container } = args.drive;
    let (named, image, places) = divided(container, args.image, args.places.into());
    let takes_git = !args.along.no_git && !config.no_git;
    let takes_logins = !args.along.no_registry_login;
    let flags = Options {
        launch: LaunchOptions {
            size: args.size,
            speed: args.speed.into(),
            notice: args.notice,
            checkpoint: args.checkpoint,
            subnet: args.subnet,
            instance_profile: args.instance_profile,
            ..launch
        },
        image,
        places,
        jupyter_port: args.jupyter_port,
        no_jupyter: args.no_jupyter,
        open: args.open,
        forwards: args.forwards,
        remote_forwards: args.remote_forwards,
        exact_ports: args.exact_ports,
        variables,
        agent,
        aws: args.along.aws,
        git: takes_git.then(GitUser::find).flatten(),
        logins: takes_logins.then(|| config.logins(&caller)).flatten(),
        keep: args.keep,
        resume: args.resume,
        reach: args.reach.into(),
        tags: args.launch.tags.into_iter().collect(),
        ..Options::default()
    };
    let options = Options::choose(flags, config);
    let (drive, fork_of) = match drive.generation {
        Some(generation) => (drive.name.at(generation), Some(drive)),
        None => (drive.name, None),
    };
    let mut request = Request {
        drive,
        named,
        fork_of,
        options,
        from: args.from,
        discard: args.discard,
        note: args.note,
        no_join: args.no_join,
        shared: args.shared,
        idle: Idle::default(),
        yes: false,
        dry_run: args.dry_run,
        json: args.json,
        command: if args.no_terminal {
            session::shell_without_terminal()
        } else {
            args.command
        },
        terminal: args.terminal,
        task: Task::Connect,
        examination: None,
        credentials: None,
    };
    request.add_described()?;
    Ok(request)
}
