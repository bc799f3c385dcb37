//! The errors of calls to EC2.
//!
//! AWS's own code decides the [`Kind`], before the HTTP status: `InsufficientInstanceCapacity`
//! arrives as a 500 and is no failure of AWS. Without a code the outcome of the call is not known
//! ([`Kind::Ambiguous`]).
//!
//! Codes: Amazon EC2 API reference, *Error codes for the Amazon EC2 API*.

use std::error::Error as StdError;
use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

/// The kind of an error: what a caller may do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The pool (type, zone, market) has no capacity now: try the next.
    Capacity,
    /// The spot quota for this type is reached: another type may count against another quota, or
    /// for less of it; on demand may work.
    SpotQuota,
    /// The on-demand vCPU quota of this type's family is reached: another family has another quota.
    VcpuQuota,
    /// The account cannot use spot now; on demand it may.
    SpotUnavailable,
    /// The account's plan excludes this type; one of the free tier may be launched.
    NotEligible,
    /// The account's quota is reached.
    Quota,
    /// Too many requests: try again later. The call was not carried out.
    Throttled,
    /// The resource does not exist (or not yet: new ids lag).
    NotFound,
    /// The resource's state forbids the call (in use, not yet available, already attached…).
    State,
    /// A dry run succeeded: the call would be allowed.
    DryRun,
    /// The caller may not do this.
    Denied,
    /// No credentials, expired ones, or a clock that is off.
    Credentials,
    /// The request itself is wrong: trying again cannot help.
    Invalid,
    /// No answer came, or one that cannot be parsed: the call may or may not have been carried out.
    Ambiguous,
    /// AWS failed on its side; the call may have been carried out.
    Server,
}

/// The error of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The API call, such as `RunInstances`.
    pub call: &'static str,
    /// The kind of the error, which says what may be done about it.
    pub kind: Kind,
    /// AWS's error code, such as `InsufficientInstanceCapacity`; empty where no answer came.
    pub code: String,
    /// AWS's message, or the cause of a failed request.
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

impl StdError for Error {}

impl Error {
    /// From the SDK's error of `call`.
    pub(super) fn from_sdk<E>(call: &'static str, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        let status = error
            .raw_response()
            .map(|response| response.status().as_u16());
        if let SdkError::ServiceError(service) = error
            && let Some(code) = service.err().code()
        {
            return Self {
                call,
                kind: kind_of(code, service.err().message(), status.unwrap_or(0)),
                code: code.to_owned(),
                message: words(service.err().message().unwrap_or("(no message)")).to_owned(),
            };
        }
        let mut message = causes(error);
        if let Some(status) = status {
            message = format!("HTTP {status}: {message}");
        }
        Self {
            call,
            kind: match error {
                // Never sent: the request could not be built.
                SdkError::ConstructionFailure(_) => Kind::Invalid,
                _ if lacks_credentials(error) => Kind::Credentials,
                _ => Kind::Ambiguous,
            },
            code: String::new(),
            message,
        }
    }

    /// From an answer with this status, code and message, of a call that no SDK client makes.
    pub(super) fn refused(call: &'static str, status: u16, code: String, message: String) -> Self {
        Self {
            call,
            kind: kind(&code, status),
            code,
            message,
        }
    }

    /// Of a call without an answer.
    pub(super) fn of_kind(call: &'static str, kind: Kind, message: String) -> Self {
        Self {
            call,
            kind,
            code: String::new(),
            message,
        }
    }

    /// From an answer that cannot be parsed.
    pub(super) fn unreadable(call: &'static str, what: impl fmt::Display) -> Self {
        Self {
            call,
            kind: Kind::Ambiguous,
            code: String::new(),
            message: format!("the answer cannot be read: {what}"),
        }
    }

    /// Of a call that was not sent.
    pub(super) fn unsent(call: &'static str, why: impl fmt::Display) -> Self {
        Self {
            call,
            kind: Kind::Credentials,
            code: String::new(),
            message: format!("not sent: {why}"),
        }
    }

    /// Whether a named security group does not exist (any more, or yet).
    #[must_use]
    pub fn lacks_group(&self) -> bool {
        self.code == NO_GROUP
    }

    /// Whether the named root device is not the image's, so that EC2 asks for the size of a new
    /// disk.
    #[must_use]
    pub fn lacks_root_device(&self) -> bool {
        self.code == "MissingParameter" && self.message.contains("snapshotId")
    }

    /// Whether the instance of a launch's client token was terminated since (EC2 user guide, *Ensuring
    /// idempotency*).
    #[must_use]
    pub fn is_over_already(&self) -> bool {
        self.code == "IdempotentInstanceTerminated"
    }

    /// Whether the instance does not run yet, or any more, where it has to.
    #[must_use]
    pub fn is_not_running(&self) -> bool {
        matches!(
            self.code.as_str(),
            "InvalidInstanceID" | "IncorrectInstanceState"
        )
    }

    /// Whether EC2 throttled the request, without carrying it out. Limits that pass more slowly
    /// (five pending snapshots of a volume) are [`Kind::Throttled`] too, but not this.
    pub(super) fn is_request_throttling(&self) -> bool {
        REQUEST_THROTTLING.contains(&self.code.as_str())
    }
}

/// The code for a security group that does not exist (any more, or yet).
pub(super) const NO_GROUP: &str = "InvalidGroup.NotFound";

/// AWS's message without its encoded part: up to a kilobyte that people cannot read (STS API
/// reference, `DecodeAuthorizationMessage`).
fn words(message: &str) -> &str {
    const ENCODED: &str = "Encoded authorization failure message:";
    message
        .split_once(ENCODED)
        .map_or(message, |(words, _)| words.trim_end())
}

/// Codes for too many requests: the call was not carried out.
const REQUEST_THROTTLING: &[&str] = &[
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
];

/// The kind of an error by code and message. One code needs the message: to an account on the Free
/// plan EC2 refuses other types with the code for incompatible parameters.
fn kind_of(code: &str, message: Option<&str>, status: u16) -> Kind {
    const OF_TYPE: &str = "instance type is not eligible for Free Tier";
    match code {
        "InvalidParameterCombination" if message.is_some_and(|words| words.contains(OF_TYPE)) => {
            Kind::NotEligible
        }
        _ => kind(code, status),
    }
}

/// The kind of AWS's `code`; `status` decides only where the code is unknown.
fn kind(code: &str, status: u16) -> Kind {
    if REQUEST_THROTTLING.contains(&code) {
        return Kind::Throttled;
    }
    match code {
        "InsufficientInstanceCapacity"
        | "InsufficientCapacity"
        | "InsufficientThroughputCapacity"
        | "NoFreeAddressesInSubnet"
        | "ReservationCapacityExceeded"
        | "InsufficientHostCapacity"
        | "InsufficientVolumeCapacity"
        | "InsufficientFreeAddressesInSubnet"
        | "SpotMaxPriceTooLow"
        | "UnfulfillableCapacity"
        | "Unsupported"
        | "VolumeTypeNotAvailableInZone" => Kind::Capacity,
        "MaxSpotInstanceCountExceeded" => Kind::SpotQuota,
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted" => Kind::SpotUnavailable,
        "InstanceLimitExceeded"
        | "MaxIOPSLimitExceeded"
        | "ResourceCountExceeded"
        | "RulesPerSecurityGroupLimitExceeded"
        | "SecurityGroupLimitExceeded"
        | "ResourceLimitExceeded"
        | "ServiceQuotaExceededException"
        | "FileSystemLimitExceeded"
        | "NetworkInterfaceLimitExceeded"
        | "SnapshotLimitExceeded"
        | "TagLimitExceeded"
        | "VolumeLimitExceeded" => Kind::Quota,
        "VcpuLimitExceeded" => Kind::VcpuQuota,
        // Not quotas: they pass when a pending snapshot completes, or in 15 s.
        "ConcurrentSnapshotLimitExceeded"
        | "ConcurrentLimitExceededException"
        | "PendingSnapshotLimitExceeded"
        | "SnapshotCreationPerVolumeRateExceeded" => Kind::Throttled,
        "AttachmentLimitExceeded"
        | "DependencyViolation"
        | "EC2InstanceStateInvalidException"
        | "IncorrectInstanceState"
        | "IncorrectSpotRequestState"
        | "IncorrectState"
        | "IncorrectStateException"
        | "FileSystemInUse"
        | "IncorrectFileSystemLifeCycleState"
        | "IncorrectMountTargetState"
        | "InvalidSnapshot.InUse"
        | "InvalidState"
        | "InvalidStateTransition"
        | "OperationNotPermitted"
        | "VolumeInUse" => Kind::State,
        "DryRunOperation" => Kind::DryRun,
        "AccessDenied"
        | "AccessDeniedException"
        | "AuthException"
        | "Blocked"
        | "OptInRequired"
        | "PendingVerification"
        | "UnauthorizedOperation" => Kind::Denied,
        "AuthFailure"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "MissingAuthenticationToken"
        | "RequestExpired"
        | "InvalidSignatureException"
        | "MissingAuthenticationTokenException"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException" => Kind::Credentials,
        "InternalError"
        | "InternalFailure"
        | "EC2InstanceUnavailableException"
        | "InternalServerError"
        | "InternalServerException"
        | "ServiceException"
        | "ServiceUnavailable"
        | "Unavailable" => Kind::Server,
        "EC2InstanceNotFoundException"
        | "FileSystemNotFound"
        | "MountTargetNotFound"
        | "ResourceNotFoundException"
        | "SecurityGroupNotFound"
        | "SubnetNotFound" => Kind::NotFound,
        _ if code.ends_with(".NotFound") => Kind::NotFound,
        _ if status >= 500 => Kind::Server,
        _ => Kind::Invalid,
    }
}

/// All causes, outermost first: the SDK's own `Display` is only "dispatch failure".
pub(super) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in chain(error) {
        let words = cause.to_string();
        if !parts.last().is_some_and(|last| last.contains(&words)) {
            parts.push(words);
        }
    }
    parts.join(": ")
}

fn lacks_credentials(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(<dyn StdError>::is::<CredentialsError>)
}

fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let this = next?;
        next = this.source();
        Some(this)
    })
}

/// The answer, or none if its error is one of `codes`, which mean that there was nothing to do.
pub(super) fn unless<T>(answer: Result<T, Error>, codes: &[&str]) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if codes.contains(&error.code.as_str()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, kind, words};

    #[test]
    fn the_encoded_copy_of_a_refusal_is_left_out() {
        let whole = "You are not authorized to perform this operation. User: arn:aws:iam::1:user/a \
                     is not authorized to perform: ec2:RunInstances. Encoded authorization failure \
                     message: AbC-dEf_1";
        assert!(words(whole).ends_with("perform: ec2:RunInstances."));
        assert_eq!(words("no"), "no");
    }

    #[test]
    fn a_code_decides_before_the_status() {
        for (code, status, expected) in [
            ("InsufficientInstanceCapacity", 500, Kind::Capacity),
            ("Unsupported", 400, Kind::Capacity),
            ("ReservationCapacityExceeded", 400, Kind::Capacity),
            ("MaxSpotInstanceCountExceeded", 400, Kind::SpotQuota),
            (
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                403,
                Kind::SpotUnavailable,
            ),
            ("AuthFailure", 401, Kind::Credentials),
            ("VcpuLimitExceeded", 400, Kind::VcpuQuota),
            ("RequestLimitExceeded", 503, Kind::Throttled),
            (
                "SnapshotCreationPerVolumeRateExceeded",
                400,
                Kind::Throttled,
            ),
            ("InvalidVolume.NotFound", 400, Kind::NotFound),
            ("InvalidInstanceID.NotFound", 400, Kind::NotFound),
            ("ResourceNotFoundException", 404, Kind::NotFound),
            ("EC2InstanceNotFoundException", 400, Kind::NotFound),
            ("EC2InstanceStateInvalidException", 400, Kind::State),
            ("AuthException", 400, Kind::Denied),
            ("InvalidAction", 400, Kind::Invalid),
            ("ValidationException", 400, Kind::Invalid),
            ("InternalServerException", 500, Kind::Server),
            ("InvalidInstanceID.Malformed", 400, Kind::Invalid),
            ("VolumeInUse", 400, Kind::State),
            ("IncorrectState", 400, Kind::State),
            ("DryRunOperation", 412, Kind::DryRun),
            ("UnauthorizedOperation", 403, Kind::Denied),
            ("RequestExpired", 400, Kind::Credentials),
            ("InvalidParameterCombination", 400, Kind::Invalid),
            ("Unavailable", 503, Kind::Server),
            ("SomethingNew", 500, Kind::Server),
            ("SomethingNew", 400, Kind::Invalid),
        ] {
            assert_eq!(kind(code, status), expected, "{code} ({status})");
        }
    }
}
