//! Callers and their temporary credentials (STS), and keys that are authorized for a minute (EC2 Instance Connect).

use std::time::Duration;

use super::request::no_such;
use super::{Answer, Reading};
use crate::caller::Caller;
use crate::records::InstanceState;
use crate::session::{Holder, Session, Temporary};
use crate::wire::{ApiError, Xml};
use crate::{Local, catalog};

/// Whoever signs by `session`, or without one; none if that session's instance is over, or its role is
/// gone.
pub(crate) fn caller_of(
    local: &Local,
    session: Option<&Session>,
) -> Result<Option<Caller>, ApiError> {
    let own = &local.0.caller;
    let (name, instance) = match session.map(|session| &session.holder) {
        None => return Ok(Some(own.clone())),
        Some(Holder::Owner) => {
            return Ok(Some(Caller {
                is_temporary: true,
                ..own.clone()
            }));
        }
        Some(Holder::Role { name, instance }) => (name, instance),
    };
    let world = local.look()?;
    let now = world.now(local.clock().now());
    let found = world.instance(instance, now, local.delays());
    let is_over = found.is_none_or(|(_, state)| matches!(state, InstanceState::Terminated));
    let rights = local.0.roles.get(name).filter(|_| !is_over);
    Ok(rights.map(|rights| Caller {
        arn: catalog::assumed_role(name, instance),
        allows: rights.clone(),
        is_temporary: true,
    }))
}

/// STS `GetSessionToken`: temporary credentials of whoever has credentials for good.
pub(super) fn session_token(reading: &Reading<'_>) -> Answer {
    /// The shortest and the longest life of them, and the one without a wish (STS API reference).
    const SHORTEST: u32 = 15 * 60;
    const LONGEST: u32 = 36 * 60 * 60;
    const USUAL: u32 = 12 * 60 * 60;
    if reading.caller.is_temporary {
        return Err(ApiError {
            status: 403,
            code: "AccessDenied".to_owned(),
            message: "Cannot call GetSessionToken with session credentials".to_owned(),
        });
    }
    let seconds = reading.request.number("DurationSeconds")?.unwrap_or(USUAL);
    let bound = match seconds {
        ..SHORTEST => Some(format!("greater than or equal to {SHORTEST}")),
        SHORTEST..=LONGEST => None,
        _ => Some(format!("less than or equal to {LONGEST}")),
    };
    if let Some(bound) = bound {
        return Err(ApiError::client(
            "ValidationError",
            format!(
                "1 validation error detected: Value '{seconds}' at 'durationSeconds' failed to \
                 satisfy constraint: Member must have value {bound}"
            ),
        ));
    }
    let session = Session {
        holder: Holder::Owner,
        expires: reading.now + Duration::from_secs(seconds.into()),
    };
    let Temporary { key, token } = session.credentials(&reading.inner.credentials);
    let expires = session.expires.strftime("%Y-%m-%dT%H:%M:%SZ");
    Ok(vec![Xml::node(
        "Credentials",
        [
            Xml::text("AccessKeyId", key.access_key_id),
            Xml::text("SecretAccessKey", key.secret_access_key),
            Xml::text("SessionToken", token),
            Xml::text("Expiration", expires),
        ],
    )])
}

/// STS `GetCallerIdentity`.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table of calls")]
pub(super) fn caller(reading: &Reading<'_>) -> Answer {
    let arn = &reading.caller.arn;
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
