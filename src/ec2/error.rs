//! What a call to EC2 can answer instead of success.

use std::fmt;

/// What kind of no it was: what a caller may do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// This pool (type, zone, market) has nothing now: try the next.
    Capacity,
    /// Spot is not to be had by this account now: on-demand may be.
    SpotUnavailable,
    /// The account's quota is reached.
    Quota,
    /// Slow down and try again.
    Throttled,
    /// The thing is not there (or not there yet: new ids lag).
    NotFound,
    /// It is in a state that forbids this (in use, not yet available, already attached…).
    State,
    /// `DryRun` says the call would be allowed.
    DryRun,
    /// The caller may not do this.
    Denied,
    /// No credentials, expired ones, or a clock that is off.
    Credentials,
    /// The request itself is wrong: trying again cannot help.
    Invalid,
    /// No answer came, or one that cannot be read: the call may or may not have been carried out.
    Ambiguous,
    /// AWS failed on its side, and said so.
    Server,
}

/// A call that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The API call, such as `RunInstances`.
    pub call: &'static str,
    /// What may be done about it.
    pub kind: Kind,
    /// AWS's error code, such as `InsufficientInstanceCapacity`; empty where no answer came.
    pub code: String,
    /// AWS's message, or what went wrong on the way.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.call)?;
        if !self.code.is_empty() {
            write!(f, "{}: ", self.code)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
