//! Callers: whoever signed a request, and the rights that it has.

use super::rights::Rights;

/// The caller of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// Its ARN, as STS names it.
    pub(super) arn: String,
    /// The rights that its calls are checked against.
    pub(super) allows: Rights,
    /// Whether it signs with temporary credentials, for which STS makes no others.
    pub(super) is_temporary: bool,
}
