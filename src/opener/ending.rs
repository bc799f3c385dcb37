//! How a session ends.

use anyhow::anyhow;
use jiff::Timestamp;

use crate::failure::{Exit, Failure};
use crate::signals::End;
use crate::ssh::shell::ShellExit;

/// How the use of the drive ended, before the save.
pub(crate) enum Ending {
    /// The shell or command ended, with this exit code.
    Exit(u8),
    /// A signal asked for the end.
    Asked(End),
    /// The user ended the session (`~.`) before the shell or command.
    Escaped,
    /// The user detached (`~d`): the host and what runs there go on.
    Detached,
    /// The user asked for a save that freezes what runs (`~f`).
    Frozen,
    /// The host closes the drive by itself, for this reason.
    Closed(String),
    /// EC2 took the instance back.
    Interruption(Interruption),
    /// The session could not be begun, or its connection is lost for good.
    Failed(Failure),
}

/// How EC2 took the instance back.
pub(crate) enum Interruption {
    /// With a notice.
    Noticed {
        /// When the instance ends.
        at: Timestamp,
        /// The exit code of the shell or command, if it ended after the notice.
        code: Option<u8>,
    },
    /// Without a notice that arrived: EC2 says afterwards that it took it.
    Taken,
    /// The instance is gone, and EC2 does not say that it took it. The failure is reported if the
    /// session does not resume.
    Gone(Failure),
}

/// Of a session whose shell or command has ended, and has not lost its connection.
impl From<ShellExit> for Ending {
    fn from(exit: ShellExit) -> Self {
        match exit {
            ShellExit::Detached => Self::Detached,
            ShellExit::Escaped => Self::Escaped,
            ShellExit::Frozen => Self::Frozen,
            exit => Self::Exit(exit.code()),
        }
    }
}

impl Ending {
    /// The exit code of this ending, or its failure.
    pub(crate) fn code(self) -> Result<u8, Failure> {
        Ok(match self {
            Self::Exit(code) => code,
            Self::Escaped => ShellExit::Escaped.code(),
            Self::Asked(end) => Exit::from(end).code(),
            // An interruption was reported when it came.
            Self::Detached | Self::Frozen | Self::Interruption(_) => 0,
            Self::Closed(reason) => {
                return Err(Failure::new(
                    Exit::Disconnected,
                    anyhow!("the host closed the drive: {reason}"),
                ));
            }
            Self::Failed(failure) => return Err(failure),
        })
    }

    /// The ending that counts once the shell or command has `ended` and the `monitor` has stopped.
    /// The monitor's ending is why the shell ended, and counts. An interruption does not count
    /// after a signal, `~.`, `~d` or `~f`: the session neither asks whether to resume nor starts the
    /// command again. After `~d` on an instance that EC2 takes the drive is saved.
    pub(crate) fn of_both(monitor: Option<Self>, ended: anyhow::Result<Self>) -> Self {
        match (monitor, ended) {
            (Some(Self::Interruption(Interruption::Noticed { at, .. })), Ok(Self::Exit(code))) => {
                let code = Some(code);
                Self::Interruption(Interruption::Noticed { at, code })
            }
            (Some(Self::Interruption(_)), Ok(asked @ (Self::Asked(_) | Self::Frozen))) => asked,
            (Some(Self::Interruption(_)), Ok(Self::Escaped | Self::Detached)) => Self::Escaped,
            (Some(ending), _) | (None, Ok(ending)) => ending,
            (None, Err(error)) => Self::Failed(Failure::from(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_a_session_that_is_interrupted_is_not_taken_for_its_command() {
        let noticed = || {
            let at = Timestamp::UNIX_EPOCH;
            Some(Ending::Interruption(Interruption::Noticed {
                at,
                code: None,
            }))
        };
        let both = |ended| Ending::of_both(noticed(), Ok(ended));
        for end in [Ending::Escaped, Ending::Detached] {
            assert!(matches!(both(end), Ending::Escaped));
        }
        let signal = Ending::Asked(End::Hangup);
        assert!(matches!(both(signal), Ending::Asked(End::Hangup)));
        let Ending::Interruption(Interruption::Noticed { code, .. }) = both(Ending::Exit(7)) else {
            panic!("it ended by itself");
        };
        assert_eq!(code, Some(7));
    }
}
