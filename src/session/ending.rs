//! How a session ends: the ground that everything else of it stands on.

use jiff::Timestamp;

use crate::failure::Failure;
use crate::signals::Signal;

/// How the middle of a session ended.
pub(super) enum Ending {
    /// The shell or command ended, with this exit code.
    Exit(u8),
    /// This asked for the end.
    Asked(Signal),
    /// What runs there shall go on: `~d`.
    Detached,
    /// The host closes the drive, for this reason, and did not ask.
    Closed(String),
    /// EC2 took the instance away.
    Interruption(Interruption),
    /// It could not be begun.
    Failed(Failure),
}

/// How EC2 took the instance away.
pub(super) enum Interruption {
    /// With a notice.
    Noticed {
        /// When the instance ends.
        at: Timestamp,
        /// The exit code of the command or shell, where it ended meanwhile.
        code: Option<u8>,
    },
    /// Without: what is to be said where the session does not go on.
    Gone(Failure),
}
