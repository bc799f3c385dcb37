//! Flags of one session, which no file can set.

use super::over::Over;
use super::quantity::Budget;
use super::sections::{DRIVE, LAUNCH, SESSION};
use crate::drive::stuck::Head;
use crate::drive::tags::Note;
use crate::ids::ReservationId;

/// Flags of `connect` and `run` for one session alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Once {
    /// Go on from this volume or snapshot, or begin anew (`empty`).
    ///
    /// Whatever else there is, is kept as NAME.fork-N.
    #[arg(long, value_name = "VOLUME|SNAPSHOT|empty", hide_short_help = true, help_heading = DRIVE)]
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

    /// The most that the session or run may take in US dollars, such as 5, over all its instances.
    ///
    /// Instances with their disks and addresses, by the price of now and a fifth more, or by
    /// --max-price. The host keeps it: it closes the drive then, and a run gets SIGTERM before, as at
    /// the end of --max. Without a price and --max-price nothing is launched.
    #[arg(long, value_name = "DOLLARS", hide_short_help = true, help_heading = LAUNCH)]
    pub budget: Option<Budget>,

    /// With --dry-run or `run -d` one JSON document instead of text.
    ///
    /// With or without, a failure is one line of JSON at the end of standard error.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub json: bool,

    /// Do not join a session that has the drive elsewhere.
    ///
    /// End with code 75 instead.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub no_join: bool,

    /// Give CMD a terminal, as ssh's -t: for htop, vim or a prompt of Python.
    ///
    /// Without it CMD's input, output and errors are streams of bytes, each its own. With it they are
    /// this terminal, with the escapes of a shell; ~d leaves it running, and the next shell on the
    /// drive is at it again.
    #[arg(short = 't', long, requires = "command", hide_short_help = true, help_heading = SESSION)]
    pub terminal: bool,

    /// Launch on demand in this capacity reservation.
    ///
    /// Its type and its zone are the instance's; --type has to name that type. What does not fit, or has no
    /// room, is an error before anything is launched [default: no reservation is named].
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["spot", "free"],
        hide_short_help = true,
        help_heading = LAUNCH
    )]
    pub reservation: Option<ReservationId>,

    /// A note on what this session changes, which `xdrive log` shows.
    ///
    /// One line of at most 256 characters, in a tag of the drive's volume and snapshot.
    #[arg(short = 'm', long, value_name = "TEXT", hide_short_help = true, help_heading = SESSION)]
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
}

/// A file has none: what was typed stays.
impl Over for Once {
    fn over(self, _other: Self) -> Self {
        self
    }
}
