//! Rights: what a caller's policies allow, evaluated at every call as IAM and EC2 do.
//!
//! Without a policy in the settings the caller may do everything. A `policy` is the caller's own and
//! the only one: what it does not allow is refused. A `control-policy` stands for the account's
//! organization, and only forbids. What a call asks is in `calls/rights`.

mod document;

pub(super) use document::Context;
use document::{Decision, Document};

/// A caller's rights.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rights {
    /// The caller's policy; none allows everything.
    policy: Option<Document>,
    /// The organization's.
    control: Option<Document>,
}

impl Rights {
    /// Of these policy documents. Fails on what a policy here cannot have, which is never ignored.
    pub(super) fn read(policy: Option<&str>, control: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self {
            policy: policy.map(Document::read).transpose()?,
            control: control.map(Document::read).transpose()?,
        })
    }

    /// Whether the caller may do everything.
    pub(super) fn are_whole(&self) -> bool {
        self.policy.is_none() && self.control.is_none()
    }

    /// Why the caller may not take this action on the resource; none if it may.
    pub(super) fn refusal(
        &self,
        action: &str,
        resource: &str,
        context: &Context,
    ) -> Option<&'static str> {
        let decide = |document: &Document| document.decide(action, resource, context);
        if let Some(control) = &self.control
            && decide(control) == Decision::Denied
        {
            return Some("with an explicit deny in a service control policy");
        }
        match self.policy.as_ref().map(decide) {
            None | Some(Decision::Allowed) => None,
            Some(Decision::Denied) => Some("with an explicit deny in an identity-based policy"),
            Some(Decision::NotAllowed) => Some("because no identity-based policy allows it"),
        }
    }
}
