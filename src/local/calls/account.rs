//! The caller (STS), and keys that are authorized for a minute (EC2 Instance Connect).

use super::request::no_such;
use super::{Answer, Reading};
use crate::catalog;
use crate::records::InstanceState;
use crate::wire::{ApiError, Xml};

/// STS `GetCallerIdentity`.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table of calls")]
pub(super) fn caller(reading: &Reading<'_>) -> Answer {
    let arn = &reading.inner.caller;
    let id = match arn.rsplit_once('/') {
        Some((role, session)) if role.contains(":assumed-role/") => {
            format!("{}:{session}", catalog::ROLE_ID)
        }
        _ => catalog::USER_ID.to_owned(),
    };
    Ok(vec![
        Xml::text("Arn", arn),
        Xml::text("UserId", id),
        Xml::text("Account", catalog::ACCOUNT),
    ])
}

/// EC2 Instance Connect `SendSSHPublicKey`: authorizes the key to log in as the user for 60
/// seconds.
pub(super) fn send_ssh_key(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let id = request.required("InstanceId")?;
    let user = request.required("InstanceOSUser")?;
    let key = request.required("SSHPublicKey")?;
    let found = reading
        .world
        .instance(id, reading.now, &reading.inner.delays);
    let (instance, state) = found.ok_or_else(|| match no_such("i-", id) {
        error if error.code.ends_with("NotFound") => ApiError::client(
            "EC2InstanceNotFoundException",
            format!("Instance not found: {id}"),
        ),
        error => invalid(error.message),
    })?;
    if let Some(zone) = request
        .text("AvailabilityZone")
        .filter(|zone| *zone != instance.zone)
    {
        return Err(invalid(format!("Instance {id} is not in {zone}")));
    }
    let name = user
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if !name || user.len() > 31 || user.starts_with('-') {
        return Err(invalid(format!("{user:?} is not the name of a user")));
    }
    let mut words = key.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let known = kind.starts_with("ssh-") || kind.starts_with("ecdsa-");
    if !known || words.next().is_none() || key.trim().contains('\n') {
        return Err(invalid("The SSH public key is not one".to_owned()));
    }
    if !matches!(state, InstanceState::Running) {
        return Err(ApiError::client(
            "EC2InstanceStateInvalidException",
            format!("Instance {id} is in the {} state", state.name()),
        ));
    }
    reading.inner.plane.send_ssh_key(id, user, key.trim())?;
    Ok(vec![Xml::text("Success", true)])
}

fn invalid(message: String) -> ApiError {
    ApiError::client("InvalidArgsException", message)
}
