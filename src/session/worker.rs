//! The worker that a session may be: a throwaway copy of a drive in its leader's network.

use std::net::IpAddr;

use crate::host::scripts::JoinToken;
use crate::ids::DriveName;

/// The worker that a session is to be.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The drive that leads it.
    pub of: DriveName,
    /// The leader's address in its VPC.
    pub leader: IpAddr,
    /// The token by which it comes to the leader's network.
    pub token: JoinToken,
    /// The number, from 1.
    pub number: u16,
    /// How many workers there are to be.
    pub count: u16,
}

impl Worker {
    /// The name in the network of the main container of the worker of this number.
    #[must_use]
    pub fn name_of(number: u16) -> String {
        format!("w{number}")
    }

    pub(super) fn alias(&self) -> String {
        Self::name_of(self.number)
    }

    /// The variables that its command has besides: the leader's name in the network, its own number, and
    /// how many workers there are to be.
    pub(super) fn variables(&self) -> [String; 3] {
        [
            "XDRIVE_LEADER=leader".to_owned(),
            format!("XDRIVE_WORKER={}", self.number),
            format!("XDRIVE_WORKERS={}", self.count),
        ]
    }
}
