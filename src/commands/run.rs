//! `xdrive run`: a command that needs no session to go on.

use std::time::Duration;

use anyhow::anyhow;

use super::{Context, connect};
use crate::config::quantity;
use crate::failure::{Exit, Failure};
use crate::session::{Request, Task};

/// How long a run may take by default.
const MAX: Duration = Duration::from_hours(24);

/// `xdrive run`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Start it and leave; --max 24h is how long it may take.
    ///
    /// It has no input. `xdrive logs` shows what it prints, `xdrive attach` comes back to it.
    #[arg(short, long, help_heading = None)]
    pub detach: bool,

    /// How long it may take, such as 24h or 3d.
    ///
    /// After that its host closes the drive and switches itself off; seven days at most
    /// [default: 24h].
    #[arg(long, value_name = "TIME", value_parser = quantity::lease, hide_short_help = true, help_heading = None)]
    pub max: Option<Duration>,

    /// The session that starts it.
    #[command(flatten)]
    pub session: connect::Args,
}

/// Runs the command, or starts it. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let request = connect::request(args.session, &paths)?;
    if request.command.is_empty() {
        let command = context.which(&paths)?.command(&paths);
        let hint = format!("{command} run {} -d -- CMD…", request.drive);
        return Err(Failure::new(Exit::Usage, anyhow!("there is no command to run")).hint(hint));
    }
    let mut options = request.options;
    options.keep = Some(args.max.or(options.keep).unwrap_or(MAX));
    let request = Request {
        options,
        task: Task::Run {
            is_detached: args.detach,
        },
        ..request
    };
    connect::begin(request, &paths, context)
}
