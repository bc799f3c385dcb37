//! Rights: what a caller's policies allow, evaluated at every call as IAM and EC2 do.
//!
//! Without a policy in the settings the caller may do everything. A `policy` is the caller's own and
//! the only one: what it does not allow is refused. A `control-policy` stands for the account's
//! organization, and only forbids. Which resources a call asks about, and with what context, is
//! AWS's own table ([`table`]), written from the Service Authorization Reference and not from the
//! list of calls that xdrive's policy is made of.

pub(super) mod document;
mod table;

use document::{Decision, Document};
use table::Ask;

use super::calls::Request;
use super::wire::ApiError;
use super::{Local, catalog};

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

    /// Why the caller may not ask for this; none if it may.
    fn refusal(&self, ask: &Ask) -> Option<&'static str> {
        let decide =
            |document: &Document| document.decide(&ask.action, &ask.resource, &ask.context);
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

/// Refuses the call if the caller may not make it.
pub(super) fn check(local: &Local, action: &str, request: Request<'_>) -> Result<(), ApiError> {
    let rights = &local.0.rights;
    if rights.are_whole() {
        return Ok(());
    }
    let world = local.look()?;
    let now = world.now(local.clock().now());
    let asks = table::asks(local, &world, now, (action, request))?;
    for ask in asks {
        if let Some(why) = rights.refusal(&ask) {
            return Err(refused(&local.0.caller, &ask, why));
        }
    }
    Ok(())
}

/// KMS's actions for a disk under a key of the account's own, and for a copy (EBS user guide,
/// *Requirements for Amazon EBS encryption*, *Copy an Amazon EBS snapshot*).
pub(super) const OF_A_DISK: [&str; 6] = [
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
];
pub(super) const OF_A_COPY: [&str; 7] = [
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
];

/// Whether the caller may use the key `key` of the account's own as a copy or a new disk does; `uses`
/// are KMS's actions.
pub(super) fn may_use_key(local: &Local, key: &str, uses: &[&str]) -> bool {
    let rights = &local.0.rights;
    uses.iter()
        .map(|action| Ask::of_key(action, key))
        .all(|ask| rights.refusal(&ask).is_none())
}

/// The refusal, in the words of the service (IAM user guide, *Troubleshoot access denied error
/// messages*).
fn refused(caller: &str, ask: &Ask, why: &str) -> ApiError {
    let Ask {
        action, resource, ..
    } = ask;
    let words = format!(
        "User: {caller} is not authorized to perform: {action} on resource: {resource} {why}"
    );
    let (code, message) = match action.split(':').next() {
        Some("ec2-instance-connect") => ("AuthException", words),
        Some("ebs" | "servicequotas") => ("AccessDeniedException", words),
        // Of EC2's own calls, also where they need another service's right.
        _ => (
            "UnauthorizedOperation",
            format!(
                "You are not authorized to perform this operation. {words}. Encoded authorization \
                 failure message: AbCdEf"
            ),
        ),
    };
    ApiError {
        status: 403,
        code: code.to_owned(),
        message,
    }
}

/// The ARN of a resource of this kind.
fn arn(region: &str, kind: &str, id: &str) -> String {
    let account = match kind {
        "image" | "snapshot" => "",
        _ => catalog::ACCOUNT,
    };
    format!("arn:aws:ec2:{region}:{account}:{kind}/{id}")
}
