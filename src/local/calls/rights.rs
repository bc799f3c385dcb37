//! The caller's rights at each call.
//!
//! Which resources a call asks about, and with what context, is AWS's own table ([`table`]), written
//! from the Service Authorization Reference and not from the list of calls that xdrive's policy is
//! made of.

mod table;

use table::Ask;

use super::request::Request;
use crate::caller::Caller;
use crate::wire::ApiError;
use crate::{Local, catalog};

/// Refuses the call if the caller may not make it.
pub(super) fn check(
    local: &Local,
    caller: &Caller,
    action: &str,
    request: Request<'_>,
) -> Result<(), ApiError> {
    let rights = &caller.allows;
    if rights.are_whole() {
        return Ok(());
    }
    let world = local.look()?;
    let now = world.now(local.clock().now());
    let asks = table::asks(local, &world, now, (action, request))?;
    for ask in asks {
        if let Some(why) = ask.refusal(rights) {
            return Err(refused(&caller.arn, &ask, why));
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
pub(super) fn may_use_key(caller: &Caller, key: &str, uses: &[&str]) -> bool {
    uses.iter()
        .map(|action| Ask::of_key(action, key))
        .all(|ask| ask.refusal(&caller.allows).is_none())
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
        Some("ebs" | "servicequotas" | "elasticfilesystem" | "pricing") => {
            ("AccessDeniedException", words)
        }
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
    let service = match kind {
        "file-system" => "elasticfilesystem",
        _ => "ec2",
    };
    format!("arn:aws:{service}:{region}:{account}:{kind}/{id}")
}
