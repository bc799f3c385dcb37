//! Authentication: Signature Version 4, recomputed over the request and compared.
//!
//! Source: IAM user guide, *AWS Signature Version 4 for API requests* and *Troubleshoot Signature
//! Version 4*. Only the `Authorization` header is taken, not the presigned form: no client of
//! EC2 uses that.
//!
//! Keys are the folder's, or a session's with its token.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials as Identity;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use subtle::ConstantTimeEq as _;

use crate::Credentials;
use crate::session::{Session, Temporary};

/// How far the sender's clock may be off, either way.
pub(super) const SKEW: Duration = Duration::from_mins(15);

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: &str = "x-amz-date";
const TOKEN: &str = "x-amz-security-token";

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request is not signed.
    Missing,
    /// The signature lacks a part, or a part cannot be read.
    Incomplete(String),
    /// The access key or the session token is unknown, or its holder is gone.
    UnknownKey,
    /// The session token's life is over.
    ExpiredToken,
    /// The signature is for another date, region or service; has the expected scope.
    Scope(String),
    /// The signature was made too long ago, or too far in the future.
    Expired {
        /// When it was signed.
        signed: Timestamp,
        /// When it came.
        now: Timestamp,
    },
    /// The signature was made with another secret, or the request changed on the way.
    Mismatch,
}

/// The folder's key, and the scope that it, or a session made with it, signs for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signer<'a> {
    pub(super) key: &'a Credentials,
    pub(super) region: &'a str,
    /// The service's name in a credential scope, such as `ec2`.
    pub(super) service: &'a str,
}

/// The parts of an `Authorization` header.
#[derive(Debug, PartialEq, Eq)]
struct Authorization<'a> {
    access_key_id: &'a str,
    /// `DATE/REGION/SERVICE/aws4_request`.
    scope: &'a str,
    signed_headers: Vec<&'a str>,
    signature: &'a str,
}

/// Accepts `request` if `signer` or a session of its folder signed it, as it is, within [`SKEW`] of
/// `now`; returns the session.
pub(super) fn verify(
    request: &http::Request<Bytes>,
    signer: Signer<'_>,
    now: Timestamp,
) -> Result<Option<Session>, Refusal> {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .ok_or(Refusal::Missing)?;
    let header = header
        .to_str()
        .map_err(|_| Refusal::Incomplete("Authorization header is not ASCII.".to_owned()))?;
    let given = Authorization::parse(header)?;
    let (key, session) = signing(request, signer.key)?;
    if given.access_key_id != key.access_key_id {
        return Err(Refusal::UnknownKey);
    }
    let signer = Signer {
        key: &key,
        ..signer
    };

    let (date, moment) = date(request)?;
    check_scope(given.scope, &date[..8], signer)?;
    if now.duration_since(moment).unsigned_abs() > SKEW {
        return Err(Refusal::Expired {
            signed: moment,
            now,
        });
    }

    let expected = recompute(request, &given.signed_headers, signer, moment)?;
    let is_signed: bool = expected.as_bytes().ct_eq(given.signature.as_bytes()).into();
    match session {
        _ if !is_signed => Err(Refusal::Mismatch),
        Some(session) if session.expires <= now => Err(Refusal::ExpiredToken),
        session => Ok(session),
    }
}

/// The key that the request must be signed with: `own`, or with a session token that one's.
fn signing(
    request: &http::Request<Bytes>,
    own: &Credentials,
) -> Result<(Credentials, Option<Session>), Refusal> {
    let Some(token) = request.headers().get(TOKEN) else {
        return Ok((own.clone(), None));
    };
    let session = token
        .to_str()
        .ok()
        .and_then(|token| Session::parse(token, own))
        .ok_or(Refusal::UnknownKey)?;
    let Temporary { key, .. } = session.credentials(own);
    Ok((key, Some(session)))
}

impl<'a> Authorization<'a> {
    fn parse(header: &'a str) -> Result<Self, Refusal> {
        let parts = header
            .strip_prefix(ALGORITHM)
            .filter(|parts| parts.starts_with(' '))
            .ok_or_else(|| {
                Refusal::Incomplete(format!("Unsupported AWS 'algorithm': {header:.20}."))
            })?;
        let part = |name: &str| {
            parts
                .split(',')
                .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
                .filter(|value| !value.is_empty())
                .ok_or_else(|| {
                    Refusal::Incomplete(format!(
                        "Authorization header requires '{name}' parameter."
                    ))
                })
        };
        let credential = part("Credential")?;
        let (access_key_id, scope) = credential.split_once('/').ok_or_else(|| {
            Refusal::Incomplete("Credential must have a scope after its first '/'.".to_owned())
        })?;
        Ok(Self {
            access_key_id,
            scope,
            signed_headers: part("SignedHeaders")?.split(';').collect(),
            signature: part("Signature")?,
        })
    }
}

/// The moment of signing, as it was written and as a time.
fn date(request: &http::Request<Bytes>) -> Result<(&str, Timestamp), Refusal> {
    let wrong = || {
        Refusal::Incomplete(format!(
            "Authorization header requires existence of a valid '{DATE}' header."
        ))
    };
    let written = request
        .headers()
        .get(DATE)
        .and_then(|date| date.to_str().ok())
        .filter(|date| date.len() == "20150830T123600Z".len() && date.is_ascii())
        .ok_or_else(wrong)?;
    let signed = DateTime::strptime("%Y%m%dT%H%M%SZ", written)
        .and_then(|date| date.to_zoned(TimeZone::UTC))
        .map_err(|_| wrong())?;
    Ok((written, signed.timestamp()))
}

fn check_scope(scope: &str, date: &str, signer: Signer<'_>) -> Result<(), Refusal> {
    let wrong = |what: String| {
        Err(Refusal::Scope(format!(
            "Credential should be scoped to {what}."
        )))
    };
    let parts: Vec<&str> = scope.split('/').collect();
    let [given_date, region, service, terminator] = parts[..] else {
        return Err(Refusal::Incomplete(
            "Credential must have exactly 5 slash-delimited elements.".to_owned(),
        ));
    };
    if given_date != date {
        return wrong(format!("the date of the request: {date}"));
    }
    if region != signer.region {
        return wrong(format!("a valid region: {}", signer.region));
    }
    if service != signer.service {
        return wrong(format!("correct service: {}", signer.service));
    }
    if terminator != "aws4_request" {
        return wrong("'aws4_request'".to_owned());
    }
    Ok(())
}

/// The signature that `signer` would have put on the request, over the headers named. The crate
/// adds `host` and `x-amz-date` where they are not among them, so that leaving them unsigned is a
/// mismatch.
fn recompute(
    request: &http::Request<Bytes>,
    signed_headers: &[&str],
    signer: Signer<'_>,
    moment: Timestamp,
) -> Result<String, Refusal> {
    let unreadable = |what: &str| Refusal::Incomplete(format!("{what} cannot be read."));
    let mut headers = Vec::new();
    for name in signed_headers {
        for value in request.headers().get_all(*name) {
            let value = std::str::from_utf8(value.as_bytes()).map_err(|_| unreadable(name))?;
            headers.push((*name, value));
        }
    }
    let host = match (request.headers().get(HOST), request.uri().authority()) {
        (Some(host), _) => host.to_str().map_err(|_| unreadable("host"))?,
        (None, Some(authority)) => authority.as_str(),
        (None, None) => return Err(unreadable("host")),
    };
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());

    let identity = Identity::from_keys(
        &signer.key.access_key_id,
        &signer.key.secret_access_key,
        None,
    )
    .into();
    // Sign all that the sender signed: by default the crate would leave out `user-agent`.
    let mut settings = SigningSettings::default();
    settings.excluded_headers = None;
    let params = SigningParams::builder()
        .identity(&identity)
        .region(signer.region)
        .name(signer.service)
        .time(SystemTime::from(moment))
        .settings(settings)
        .build()
        .map_err(|error| unreadable(&error.to_string()))?
        .into();
    let signable = SignableRequest::new(
        request.method().as_str(),
        format!("http://{host}{path}"),
        headers.into_iter(),
        SignableBody::Bytes(request.body()),
    )
    .map_err(|_| unreadable("the request"))?;
    let (_, signature) = sign(signable, &params)
        .map_err(|_| unreadable("the request"))?
        .into_parts();
    Ok(signature)
}

#[cfg(test)]
mod tests;
