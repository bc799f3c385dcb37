//! The records of Elastic File System: file systems, and their mount targets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tags;

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileSystem {
    /// The token that it was made for.
    pub(crate) token: String,
    pub(crate) created: Timestamp,
    /// When it is no longer being created.
    pub(crate) available: Timestamp,
    /// When it is gone, if it is deleted.
    pub(crate) deleted: Option<Timestamp>,
    pub(crate) encrypted: bool,
    pub(crate) performance: String,
    pub(crate) throughput: String,
    /// The lifecycle policies, as they were put.
    pub(crate) policies: Vec<BTreeMap<String, String>>,
    pub(crate) tags: Tags,
}

/// A mount target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) file_system: String,
    pub(crate) subnet: String,
    pub(crate) groups: Vec<String>,
    pub(crate) address: Ipv4Addr,
    pub(crate) created: Timestamp,
    pub(crate) available: Timestamp,
    pub(crate) deleted: Option<Timestamp>,
}

/// The state at `at` of what was made and became available then; none where it is not there yet, or any more.
fn state(
    at: Timestamp,
    [created, available]: [Timestamp; 2],
    deleted: Option<Timestamp>,
) -> Option<&'static str> {
    match deleted {
        Some(deleted) if at >= deleted => None,
        _ if at < created => None,
        Some(_) => Some("deleting"),
        None if at < available => Some("creating"),
        None => Some("available"),
    }
}

impl FileSystem {
    /// The state at `at`; none if it is not there.
    pub(crate) fn state(&self, at: Timestamp) -> Option<&'static str> {
        state(at, [self.created, self.available], self.deleted)
    }
}

impl Target {
    /// The state at `at`; none if it is not there.
    pub(crate) fn state(&self, at: Timestamp) -> Option<&'static str> {
        state(at, [self.created, self.available], self.deleted)
    }
}
