//! The error of a call to a host, and of the choice of its subnet ([`Subnets`](super::Subnets)).

use crate::ec2;

/// The error of a call to a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another client holds the host's lock.
    #[error("another xdrive is using the host: {owner}, since {since}")]
    Busy {
        /// As in [`super::Client::Other`].
        owner: String,
        /// As in [`super::Client::Other`].
        since: String,
    },
    /// The host is closing; the text says why.
    #[error("the host is closing: {0}")]
    Closing(String),
    /// The connection failed; the call may or may not have been carried out.
    #[error("the host cannot be reached: {0}")]
    Unreachable(String),
    /// The volume is neither blank nor a file system, and this host has no record that a format
    /// of it ever ended: a format was killed half way.
    #[error("the volume is neither blank nor a file system: {0}")]
    Garbled(String),
    /// The volume's file system cannot be mounted, and may hold data.
    #[error("the drive's file system cannot be mounted: {0}")]
    Damaged(String),
    /// No way leads from this laptop to the host, and retrying does not help.
    #[error("{why}")]
    NoRoute {
        /// Why.
        why: String,
        /// Advice for the user.
        hint: String,
    },
    /// A call to EC2 on the way to it failed.
    #[error(transparent)]
    Ec2(#[from] ec2::Error),
    /// The call failed for another reason.
    #[error("{0}")]
    Failed(String),
}
