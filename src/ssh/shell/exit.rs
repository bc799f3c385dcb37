//! How a shell ended, and the exit code for that.

/// How a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellExit {
    /// The command ended with this status.
    Status(u32),
    /// A signal ended the command, or it was cut off because the reader of its output is gone.
    Signal {
        /// The signal's number on Linux; 0 if it has no number here.
        number: u32,
    },
    /// The user typed `~.`, or closed the terminal.
    Escaped,
    /// The user typed `~d`: the command goes on on the host.
    Detached,
    /// The user typed `~f`: what runs is to be frozen, and goes on until it is.
    Frozen,
    /// Taken over: another caller is attached to the command, which goes on on the host.
    TakenOver,
    /// The connection ended first, for this reason.
    Lost(String),
}

impl ShellExit {
    /// The exit code for it: the command's, 128 + n for signal n, 255 (as ssh) if it has none.
    #[must_use]
    pub fn code(&self) -> u8 {
        let code = match self {
            Self::Status(status) => status & 0xff,
            Self::Signal { number } => 128 + number,
            Self::Detached | Self::Frozen => 0,
            Self::Escaped | Self::TakenOver | Self::Lost(_) => 255,
        };
        u8::try_from(code).unwrap_or(255)
    }
}
