//! `xdrive run`: a command that needs no session to go on.

mod again;
mod ordered;

use std::time::Duration;

use anyhow::anyhow;

use super::{Context, connect};
use crate::config::NotifyUrl;
use crate::config::launch::LaunchOptions;
use crate::failure::{Exit, Failure};
use crate::session::{Request, Results, Retry, Task};

pub use ordered::Ordered;

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

    /// Begin the order of the last run once more, as a new run.
    ///
    /// Of one that is over: CMD, --max, --notice, --restart, --retry, --results and --notify are those
    /// of its order on the drive; the launch options, those of one with --restart, in the drive's tags.
    /// What is typed beside it outranks both.
    #[arg(
        long,
        conflicts_with_all = ["command", "no_terminal", "dry_run", "from"],
        hide_short_help = true,
        help_heading = None
    )]
    pub again: bool,

    /// What an order may have.
    #[command(flatten)]
    pub order: Ordered,

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
pub(crate) fn run(mut args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let flags = [
        ("-A", args.session.config.agent),
        ("--aws", args.session.config.aws),
        ("-L", !args.session.config.forwards.is_empty()),
        ("-R", !args.session.config.remote_forwards.is_empty()),
    ];
    let needs_session = flags.iter().find(|(_, is_given)| *is_given);
    let needs_session = needs_session.map(|(flag, _)| *flag);
    if args.session.config.once.discard {
        let why = anyhow!("--discard is for a session, and a run needs none");
        let hint = "xdrive connect NAME --discard -- CMD… runs one whose changes are discarded";
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    let mut request = connect::request(args.session.clone(), &paths)?;
    if request.options.config.once.terminal {
        let command = context.which(&paths)?.command(&paths);
        let hint = format!(
            "{command} connect {} -t -- CMD…, and ~d leaves it",
            request.place()
        );
        return Err(Failure::new(Exit::Usage, anyhow!("a run has no terminal")).hint(hint));
    }
    if args.again && request.fork_of.is_some() {
        let why = anyhow!("--again is for the last run of a drive, not for NAME@N");
        return Err(Failure::new(Exit::Usage, why));
    }
    if request.command.is_empty() && !args.again {
        let command = context.which(&paths)?.command(&paths);
        let hint = format!("{command} run {} -d -- CMD…", request.place());
        return Err(Failure::new(Exit::Usage, anyhow!("there is no command to run")).hint(hint));
    }
    if let Some(flag) = needs_session.filter(|_| args.detach) {
        let why = anyhow!("{flag} is this computer's part, and with -d it leaves at once");
        return Err(Failure::new(Exit::Usage, why).hint("without -d it stays"));
    }
    if args.again {
        let typed = again::Typed {
            config: &args.session.config,
            is_detached: args.detach,
        };
        again::begin_with(typed, &mut args.order, &mut request, &paths, context)?;
    }
    let order = args.order;
    if order.results.is_some() && request.options.launch.instance_profile.is_none() {
        let why = anyhow!("--results needs a role for the instance: --instance-profile");
        let hint = "xdrive policy --results s3://BUCKET/PREFIX prints what that role needs";
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    if order.restart && args.detach {
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
            limit: order.max.unwrap_or(MAX),
            is_detached: args.detach,
            tries: order.restart.then(|| order.tries.unwrap_or(default)),
        },
        notify: NotifyUrl::choose(args.notify)?,
        results: order.results.map(|place| Results {
            url: place.to_string(),
            every: order.results_every.unwrap_or(RESULTS).as_secs(),
        }),
        retry: Retry {
            times: order.retry.unwrap_or(0),
            codes: order.retry_on,
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
