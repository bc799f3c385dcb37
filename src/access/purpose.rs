//! The purpose of a login to a host: what follows it at once, and what is opened beside it.

use crate::ids::{DriveName, SessionId};

/// The purpose of a login.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// To ask for the host's state.
    Contact,
    /// To arrive there.
    Arrival(&'a ArrivalRequest),
    /// To ask, and to have another connection for files beside it.
    Files,
}

/// A request to arrive at a host that runs, right after the login.
#[derive(Debug, Clone)]
pub(super) struct ArrivalRequest {
    /// The client's line.
    pub(super) client: String,
    /// The drive's name.
    pub(super) drive: DriveName,
    /// The session, and the command of its shell, if it wants one.
    pub(super) session: SessionId,
    pub(super) shell: Option<String>,
}
