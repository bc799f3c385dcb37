//! The records of Elastic IP addresses.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tags;

/// An address of the account's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) ip: Ipv4Addr,
    pub(crate) allocated: Timestamp,
    pub(crate) associations: Vec<Association>,
    pub(crate) tags: Tags,
}

/// The time in which an instance has an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Association {
    pub(crate) id: String,
    pub(crate) instance: String,
    pub(crate) since: Timestamp,
    pub(crate) until: Option<Timestamp>,
}

impl Address {
    /// The association at `at`.
    pub(crate) fn association(&self, at: Timestamp) -> Option<&Association> {
        let holds = |it: &&Association| it.since <= at && it.until.is_none_or(|until| at < until);
        self.associations.iter().find(holds)
    }

    /// Ends the association that there is, at `at`.
    pub(crate) fn disassociate(&mut self, at: Timestamp) {
        let last = self.associations.last_mut();
        if let Some(last) = last.filter(|last| last.until.is_none()) {
            last.until = Some(at);
        }
    }
}
