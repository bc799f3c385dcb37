//! `xdrive run`: a command that needs no session to go on.

use std::time::Duration;

use anyhow::anyhow;

use super::{Context, connect};
use crate::config::quantity::{self, Lease};
use crate::failure::{Exit, Failure};
use crate::session::{Request, Task};

/// How long a run may take by default.
const MAX: Duration = Duration::from_hours(24);

/// How often it is started again by default.
const TRIES: u32 = 3;

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
    /// Then it gets SIGTERM, --notice later SIGKILL, and its exit code is 124; seven days at most
    /// [default: 24h]. All its tries share the time.
    #[arg(long, value_name = "TIME", hide_short_help = true, help_heading = None)]
    pub max: Option<Lease>,

    /// Start it again on another instance if it loses its own.
    ///
    /// If EC2 took the instance and the command did not end with 0: three times at most, or
    /// --tries. The command has no input. This computer starts it again: not with -d, not after ~d,
    /// and not while this computer is off.
    #[arg(long, conflicts_with = "detach", hide_short_help = true, help_heading = None)]
    pub restart: bool,

    /// How often to start it again at most [default: 3].
    #[arg(
        long,
        value_name = "N",
        requires = "restart",
        value_parser = quantity::tries,
        hide_short_help = true,
        help_heading = None
    )]
    pub tries: Option<u32>,

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
    let mut options = request.options;
    if args.detach {
        options.agent = None;
        options.config.aws = false;
        options.config.forwards.clear();
        options.config.remote_forwards.clear();
    }
    let request = Request {
        options,
        task: Task::Run {
            limit: args.max.map_or(MAX, |it| it.0),
            is_detached: args.detach,
            tries: args.restart.then(|| args.tries.unwrap_or(TRIES)),
        },
        ..request
    };
    connect::begin(request, &paths, context)
}
