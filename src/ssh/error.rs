//! The errors of connections, and of commands over them.

use std::net::SocketAddr;

/// Why a connection or a command failed.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// Nothing listens at the address (yet), no packet comes back, or the connection ends before
    /// the login.
    #[error("cannot reach {0}: {1}")]
    Unreachable(SocketAddr, std::io::Error),
    /// The host has another key than the recorded one, and nothing was sent to it.
    #[error("the host at {0} does not have the key recorded for it")]
    WrongHostKey(SocketAddr),
    /// The host does not accept our key (yet).
    #[error("the host at {0} does not accept this laptop's key")]
    Denied(SocketAddr),
    /// The connection ended.
    #[error("the connection to {0} was lost: {1}")]
    Lost(SocketAddr, String),
    /// The host refused a request.
    #[error("the host at {0} refused {1}")]
    Refused(SocketAddr, String),
    /// A command printed more than is collected.
    #[error("a script on the host printed more than {0} MiB where some lines were expected")]
    TooLong(usize),
    /// A key that cannot be parsed: from a broken tag, or a broken key file.
    #[error("{0} is not an SSH key")]
    BadKey(&'static str),
    /// The command's standard input could not be read here; the command was cut off.
    #[error("cannot read what should be sent to the host: {0}")]
    Input(std::io::Error),
}
