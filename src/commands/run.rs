//! `xdrive run`: a command that needs no session to go on.

use std::num::NonZeroU8;
use std::time::Duration;

use anyhow::anyhow;

use super::{Context, connect};
use crate::config::launch::LaunchOptions;
use crate::config::{NotifyUrl, S3Prefix, quantity};
use crate::failure::{Exit, Failure};
use crate::session::{Request, Results, Retry, Task};

/// How long a run may take by default.
const MAX: Duration = Duration::from_hours(24);

/// How often its results are brought to S3 by default.
const RESULTS: Duration = Duration::from_mins(10);

/// How often it is started again by default: while this computer waits for its end, and, until its time is
/// over, if it is left at once.
const TRIES: u32 = 3;
const TRIES_ALONE: u32 = 1000;

/// `xdrive run`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    mut_arg("terminal", |arg| arg.hide(true)),
    mut_arg("discard", |arg| arg.hide(true))
)]
pub struct Args {
    /// Start it and leave; --max 24h is how long it may take.
    ///
    /// It has no input. `xdrive logs` shows what it prints, `xdrive attach` comes back to it.
    #[arg(short, long, help_heading = None)]
    pub detach: bool,

    /// How long it may take, such as 24h or 3d.
    ///
    /// Then it gets SIGTERM, --notice later SIGKILL, and its exit code is 124; 60 days at most
    /// [default: 24h]. All its tries share the time.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::limit,
        hide_short_help = true,
        help_heading = None
    )]
    pub max: Option<Duration>,

    /// Start it again on another instance if it loses its own.
    ///
    /// If EC2 took the instance and the command did not end with 0. The command has no input;
    /// `XDRIVE_TRY` in its environment is the number of the try. This computer starts it again, or, once
    /// it has left, wherever `xdrive tend` runs.
    #[arg(long, hide_short_help = true, help_heading = None)]
    pub restart: bool,

    /// How often to start it again at most [default: 3; with -d 1000].
    #[arg(
        long,
        value_name = "N",
        requires = "restart",
        value_parser = quantity::tries,
        hide_short_help = true,
        help_heading = None
    )]
    pub tries: Option<u32>,

    /// How often to start it again after it failed, on the same instance.
    ///
    /// A minute later, and twice as long each time, 15 minutes at most. Three tries in a row that fail
    /// within 10 minutes each end the run.
    #[arg(
        long,
        value_name = "N",
        requires = "restart",
        value_parser = quantity::tries,
        hide_short_help = true,
        help_heading = None
    )]
    pub retry: Option<u32>,

    /// The exit codes after which --retry starts it again [default: all but 0 and 130, Ctrl-C's].
    #[arg(
        long,
        value_name = "CODES",
        requires = "retry",
        value_delimiter = ',',
        value_parser = str::parse::<NonZeroU8>,
        hide_short_help = true,
        help_heading = None
    )]
    pub retry_on: Vec<NonZeroU8>,

    /// Bring what is in /work/results to this place in S3, at the end and every --results-every.
    ///
    /// By the AWS CLI on the instance, under its own role (`--instance-profile`): `xdrive policy --results`
    /// prints what that needs. Nothing is deleted there. A sync that fails does not fail the run.
    #[arg(long, value_name = "s3://BUCKET/PREFIX", hide_short_help = true, help_heading = None)]
    pub results: Option<S3Prefix>,

    /// How often, such as 10m [default: 10m].
    #[arg(
        long,
        value_name = "TIME",
        requires = "results",
        value_parser = quantity::results_every,
        hide_short_help = true,
        help_heading = None
    )]
    pub results_every: Option<Duration>,

    /// Post a word to this address when it ends, is ended, or goes on elsewhere.
    ///
    /// A topic of ntfy, or any webhook that takes plain text. The address is tried first, and is on the
    /// drive for root alone; `XDRIVE_NOTIFY` names it, too.
    #[arg(
        long,
        value_name = "URL",
        hide_short_help = true,
        help_heading = None
    )]
    pub notify: Option<NotifyUrl>,

    /// The session that starts it.
    #[command(flatten)]
    pub session: connect::Args,
}

/// Runs the command, or starts it. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let flags = [
        ("-A", args.session.config.agent),
        ("--aws", args.session.config.aws),
        ("-L", !args.session.config.forwards.is_empty()),
        ("-R", !args.session.config.remote_forwards.is_empty()),
    ];
    let needs_session = flags.iter().find(|(_, is_given)| *is_given);
    let needs_session = needs_session.map(|(flag, _)| *flag);
    if args.session.config.discard {
        let why = anyhow!("--discard is for a session, and a run needs none");
        let hint = "xdrive connect NAME --discard -- CMD… runs one whose changes are discarded";
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    let request = connect::request(args.session, &paths)?;
    if request.options.config.terminal {
        let command = context.which(&paths)?.command(&paths);
        let hint = format!(
            "{command} connect {} -t -- CMD…, and ~d leaves it",
            request.place()
        );
        return Err(Failure::new(Exit::Usage, anyhow!("a run has no terminal")).hint(hint));
    }
    if request.command.is_empty() {
        let command = context.which(&paths)?.command(&paths);
        let hint = format!("{command} run {} -d -- CMD…", request.place());
        return Err(Failure::new(Exit::Usage, anyhow!("there is no command to run")).hint(hint));
    }
    if let Some(flag) = needs_session.filter(|_| args.detach) {
        let why = anyhow!("{flag} is this computer's part, and with -d it leaves at once");
        return Err(Failure::new(Exit::Usage, why).hint("without -d it stays"));
    }
    if args.results.is_some() && request.options.launch.instance_profile.is_none() {
        let why = anyhow!("--results needs a role for the instance: --instance-profile");
        let hint = "xdrive policy --results s3://BUCKET/PREFIX prints what that role needs";
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    if args.restart && args.detach {
        check_left(&request)?;
    }
    let mut options = request.options;
    if args.detach {
        options.agent = None;
        options.config.aws = false;
        options.config.forwards.clear();
        options.config.remote_forwards.clear();
    }
    let default = if args.detach { TRIES_ALONE } else { TRIES };
    let request = Request {
        options,
        task: Task::Run {
            limit: args.max.unwrap_or(MAX),
            is_detached: args.detach,
            tries: args.restart.then(|| args.tries.unwrap_or(default)),
        },
        notify: NotifyUrl::choose(args.notify)?,
        results: args.results.map(|place| Results {
            url: place.to_string(),
            every: args.results_every.unwrap_or(RESULTS).as_secs(),
        }),
        retry: Retry {
            times: args.retry.unwrap_or(0),
            codes: args.retry_on,
        },
        ..request
    };
    connect::begin(request, &paths, context)
}

/// Refuses a run that no other computer could begin again: what is brought along from here is not on the
/// drive, where its next tries have all that they need.
fn check_left(request: &Request) -> Result<(), Failure> {
    let options = &request.options;
    if !options.variables.is_empty() {
        let why =
            anyhow!("with -d --restart no variable is brought along: it would lie on the drive");
        let hint = "a file in /work, or the image, has it for every try";
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    let line = options.launch.to_string();
    line.parse::<LaunchOptions>().map(drop).map_err(|error| {
        let why = anyhow!("the launch options of a run with -d --restart fit one tag: {error}");
        Failure::new(Exit::Usage, why)
    })
}
