//! A session's attachment to its hosts: its role, line and lease.

use std::time::Duration;

use jiff::Timestamp;

use super::client_line::{line, session_of};
use crate::host::Role;
use crate::ids::SessionId;

/// A session's attachment to its hosts.
#[derive(Debug, Clone)]
pub(super) struct Attachment {
    pub(super) role: Role,
    pub(super) session: SessionId,
    /// The client's line: session, time, caller.
    pub(super) line: String,
    /// How long a host runs on without a sign of life from this session.
    pub(super) lease: Duration,
    /// The client that a command of this session is, and that ends with it.
    pub(super) command: Option<SessionId>,
}

impl Attachment {
    /// Creates the attachment of `session`, which `caller` runs, as it begins at `since`.
    pub(super) fn new(
        role: Role,
        session: &SessionId,
        caller: &str,
        lease: Duration,
        since: Timestamp,
    ) -> Self {
        Self {
            role,
            session: session.clone(),
            line: line(session, since, caller),
            lease,
            command: None,
        }
    }

    /// Whether a client's line is this session's, or its command's.
    pub(super) fn has(&self, line: &str) -> bool {
        let client = session_of(line);
        let command = self.command.as_ref();
        client == self.session.0 || command.is_some_and(|command| client == command.0)
    }
}
