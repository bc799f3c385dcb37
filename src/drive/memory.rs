//! What this process remembers.

use super::name::SessionId;
use super::tags::Identity;

/// What this process made, was answered, and knows for certain.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    who: Identity,
}

impl Memory {
    /// Remembers nothing yet.
    pub(super) fn new(who: Identity) -> Self {
        Self { who }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.who.session
    }
}
