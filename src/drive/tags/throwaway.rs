//! The tag of what a session throws away at its end: `connect --discard`.

use crate::ec2::Tags;
use crate::ids::SessionId;

/// On volumes that are thrown away, and on their instances: the session that does that. It is in the
/// call that makes them and never written later, so nobody ever sees one without it.
pub const DISCARD: &str = "xdrive:discard";

/// The tag of what that session throws away.
#[must_use]
pub fn throwaway(by: &SessionId) -> Tags {
    Tags::from([(DISCARD.to_owned(), by.0.clone())])
}

/// The session that throws the thing away; none if it is the drive's.
#[must_use]
pub fn thrown_away_by(tags: &Tags) -> Option<SessionId> {
    tags.get(DISCARD).cloned().map(SessionId)
}
