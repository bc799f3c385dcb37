//! The protocols of the services that share the address.
//!
//! Sources: Amazon EC2 API reference, *Query requests* and *Error codes*; STS API reference,
//! *Making query requests*; smithy.io, *AWS JSON 1.1 protocol*.

use bytes::Bytes;
use http::StatusCode;

use super::message::{Answer, ApiError, Question};
use super::params::Params;
use super::signature::{Refusal, SKEW};
use super::xml::{Xml, is_carried};
use super::{efs, fis, rest};

/// Where the JSON protocol names its operation.
const TARGET: &str = "x-amz-target";

/// STS's calls, each with its answer's root and the element below that.
const OF_STS: [(&str, &str, &str); 2] = [
    (
        "GetCallerIdentity",
        "GetCallerIdentityResponse",
        "GetCallerIdentityResult",
    ),
    (
        "GetSessionToken",
        "GetSessionTokenResponse",
        "GetSessionTokenResult",
    ),
];

/// The only call of EC2 Instance Connect, and the prefix of its name.
const SEND_KEY: &str = "SendSSHPublicKey";
const CONNECT: &str = "AWSEC2InstanceConnectService.";

/// The only call of Service Quotas, and the prefix of its name.
const QUOTA: &str = "GetServiceQuota";
const QUOTAS: &str = "ServiceQuotasV20190624.";

/// The only call of AWS Price List, and the prefix of its name.
const PRODUCTS: &str = "GetProducts";
const PRICES: &str = "AWSPriceListService.";

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Ec2,
    Sts,
    InstanceConnect,
    Quotas,
    /// AWS Price List.
    Prices,
    /// The EBS direct APIs.
    Ebs,
    /// Fault Injection Service.
    Fis,
    /// Elastic File System.
    Efs,
}

impl Service {
    /// The service that a request is for, by what only its clients send.
    pub(super) fn from_request(request: &http::Request<Bytes>) -> Self {
        if let Some(target) = request.headers().get(TARGET) {
            let is_of = |prefix: &str| target.as_bytes().starts_with(prefix.as_bytes());
            return match () {
                () if is_of(QUOTAS) => Self::Quotas,
                () if is_of(PRICES) => Self::Prices,
                () => Self::InstanceConnect,
            };
        }
        if rest::is_for_blocks(request) {
            return Self::Ebs;
        }
        if fis::is_for_experiments(request) {
            return Self::Fis;
        }
        if efs::is_for_shares(request) {
            return Self::Efs;
        }
        let is_sts =
            pairs(request).any(|(name, value)| name == "Version" && value == Self::Sts.version());
        if is_sts { Self::Sts } else { Self::Ec2 }
    }

    /// The service's name in a credential scope.
    pub(super) fn signing_name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
            Self::InstanceConnect => "ec2-instance-connect",
            Self::Quotas => "servicequotas",
            Self::Prices => "pricing",
            Self::Ebs => "ebs",
            Self::Fis => "fis",
            Self::Efs => "elasticfilesystem",
        }
    }

    /// The region in a credential scope: the price list of all regions is in one.
    pub(super) fn signing_region(self, own: &str) -> &str {
        match self {
            Self::Prices => "us-east-1",
            _ => own,
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::Ec2 => "2016-11-15",
            Self::Sts => "2011-06-15",
            Self::InstanceConnect => "2018-04-02",
            Self::Quotas => "2019-06-24",
            Self::Prices => "2017-10-15",
            Self::Ebs => "2019-11-02",
            Self::Fis => "2020-12-01",
            Self::Efs => "2015-02-01",
        }
    }

    fn xmlns(self) -> String {
        let host = match self {
            Self::Ec2 => "http://ec2.amazonaws.com",
            Self::Sts
            | Self::InstanceConnect
            | Self::Quotas
            | Self::Prices
            | Self::Ebs
            | Self::Fis
            | Self::Efs => "https://sts.amazonaws.com",
        };
        format!("{host}/doc/{}/", self.version())
    }

    /// Parses the request.
    pub(super) fn read(self, request: &http::Request<Bytes>) -> Result<Question, ApiError> {
        match self {
            Self::InstanceConnect => read_json(request, CONNECT, SEND_KEY),
            Self::Quotas => read_json(request, QUOTAS, QUOTA),
            Self::Prices => read_document(request, PRICES, PRODUCTS),
            Self::Ebs => rest::read(request),
            Self::Fis => fis::read(request),
            Self::Efs => efs::read(request),
            Self::Ec2 | Self::Sts => self.read_query(request),
        }
    }

    fn read_query(self, request: &http::Request<Bytes>) -> Result<Question, ApiError> {
        let mut params = Params::default();
        for (name, value) in pairs(request) {
            if !value.chars().all(is_carried) {
                return Err(ApiError::client(
                    "InvalidParameterValue",
                    format!("Value for parameter {name} holds a character that XML cannot carry."),
                ));
            }
            if !params.add(name.clone(), value) {
                return Err(ApiError::client(
                    "MalformedQueryString",
                    format!("The parameter {name} is given twice."),
                ));
            }
        }
        let missing = |name| {
            ApiError::client(
                "MissingParameter",
                format!("The request must contain the parameter {name}"),
            )
        };
        let action = params.take("Action").ok_or_else(|| missing("Action"))?;
        let version = params.take("Version").ok_or_else(|| missing("Version"))?;
        if version != self.version() {
            return Err(ApiError::client(
                "NoSuchVersion",
                format!("The requested version ({version}) of service AmazonEC2 does not exist"),
            ));
        }
        // All services share one table of calls: keep each to its own.
        let is_of_sts = OF_STS.iter().any(|(name, ..)| *name == action);
        if is_of_sts != (self == Self::Sts)
            || action == SEND_KEY
            || action == QUOTA
            || action == PRODUCTS
            || rest::is_action(&action)
            || fis::is_action(&action)
            || efs::is_action(&action)
        {
            return Err(ApiError::client(
                "InvalidAction",
                format!("The action {action} is not valid for this web service."),
            ));
        }
        Ok(Question { action, params })
    }

    /// Writes an answer.
    pub(super) fn write(self, answer: Xml, request_id: &str) -> Answer {
        let body = match self {
            Self::Ebs => return rest::write(answer),
            Self::Fis => return fis::write(answer),
            Self::Efs => return efs::write(answer),
            Self::Prices => answer
                .children
                .into_iter()
                .find_map(|it| it.text)
                .unwrap_or_default(),
            Self::InstanceConnect => {
                let mut members = members(&answer);
                members.insert("RequestId".to_owned(), request_id.into());
                serde_json::Value::Object(members).to_string()
            }
            Self::Quotas => {
                let mut quota = members(&answer);
                let value = quota.get("Value").and_then(|value| value.as_str());
                let value: Option<f64> = value.and_then(|value| value.parse().ok());
                quota.insert("Value".to_owned(), value.into());
                serde_json::json!({ "Quota": quota }).to_string()
            }
            Self::Ec2 => {
                let mut root = answer;
                root.children.insert(0, Xml::text("requestId", request_id));
                root.document(Some(&self.xmlns()))
            }
            Self::Sts => {
                let known = OF_STS.iter().find(|(_, root, _)| *root == answer.name);
                let result = known.map_or(OF_STS[0].2, |(.., result)| result);
                let result = Xml::node(result, answer.children);
                let metadata = Xml::node("ResponseMetadata", [Xml::text("RequestId", request_id)]);
                Xml::node(answer.name, [result, metadata]).document(Some(&self.xmlns()))
            }
        };
        Answer {
            status: StatusCode::OK,
            content_type: self.content_type(),
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Writes an error.
    pub(super) fn write_error(self, error: &ApiError, request_id: &str) -> Answer {
        let code = Xml::text("Code", &error.code);
        let message = Xml::text("Message", &error.message);
        let body = match self {
            Self::Ebs => return rest::write_error(error),
            Self::Fis => return fis::write_error(error),
            Self::Efs => return efs::write_error(error),
            Self::Ec2 => Xml::node(
                "Response",
                [
                    Xml::node("Errors", [Xml::node("Error", [code, message])]),
                    Xml::text("RequestID", request_id),
                ],
            )
            .document(None),
            Self::Sts => {
                let fault = if error.status < 500 {
                    "Sender"
                } else {
                    "Receiver"
                };
                Xml::node(
                    "ErrorResponse",
                    [
                        Xml::node("Error", [Xml::text("Type", fault), code, message]),
                        Xml::text("RequestId", request_id),
                    ],
                )
                .document(Some(&self.xmlns()))
            }
            Self::InstanceConnect | Self::Quotas | Self::Prices => {
                serde_json::json!({"__type": error.code, "message": error.message}).to_string()
            }
        };
        Answer {
            status: StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            content_type: self.content_type(),
            headers: match self {
                Self::InstanceConnect | Self::Quotas | Self::Prices => {
                    rest::error_type(&error.code)
                }
                Self::Ec2 | Self::Sts | Self::Ebs | Self::Fis | Self::Efs => Vec::new(),
            },
            body: body.into(),
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Ec2 => "text/xml;charset=UTF-8",
            Self::Sts => "text/xml",
            Self::InstanceConnect | Self::Quotas | Self::Prices => "application/x-amz-json-1.1",
            Self::Ebs | Self::Fis | Self::Efs => rest::JSON,
        }
    }

    /// The service's error for a signature that is not accepted: EC2 reveals nothing about the key
    /// or the secret, STS everything, and JSON services have codes of their own.
    pub(super) fn refuse(self, refusal: &Refusal) -> ApiError {
        let (status, code, message) = match self {
            Self::Ec2 => refuse_as_ec2(refusal),
            Self::Sts => refuse_in_words(refusal),
            Self::InstanceConnect
            | Self::Quotas
            | Self::Prices
            | Self::Ebs
            | Self::Fis
            | Self::Efs => {
                let (_, code, message) = refuse_in_words(refusal);
                let code = match code {
                    "MissingAuthenticationToken" => "MissingAuthenticationTokenException",
                    "IncompleteSignature" => "IncompleteSignatureException",
                    "InvalidClientTokenId" => "UnrecognizedClientException",
                    "ExpiredToken" => "ExpiredTokenException",
                    _ => "InvalidSignatureException",
                };
                let is_rest = matches!(self, Self::Ebs | Self::Fis | Self::Efs);
                let status = if is_rest { 403 } else { 400 };
                (status, code, message)
            }
        };
        ApiError {
            status,
            code: code.to_owned(),
            message,
        }
    }
}

fn refuse_as_ec2(refusal: &Refusal) -> (u16, &'static str, String) {
    match refusal {
        Refusal::Missing => (
            403,
            "MissingAuthenticationToken",
            "The request must contain a signature by a registered AWS access key ID.".to_owned(),
        ),
        Refusal::Incomplete(what) => (400, "IncompleteSignature", what.clone()),
        Refusal::UnknownKey | Refusal::Mismatch => (
            401,
            "AuthFailure",
            "AWS was not able to validate the provided access credentials".to_owned(),
        ),
        // As an old signature, and not `ExpiredToken` as from STS (EC2 API reference, *Error codes*).
        Refusal::ExpiredToken => (400, "RequestExpired", "Request has expired.".to_owned()),
        Refusal::Scope(what) => (401, "AuthFailure", what.clone()),
        Refusal::Expired { signed, now } => (
            400,
            "RequestExpired",
            format!("Request has expired. It was signed at {signed}; now is {now}."),
        ),
    }
}

fn refuse_in_words(refusal: &Refusal) -> (u16, &'static str, String) {
    match refusal {
        Refusal::Missing => (
            403,
            "MissingAuthenticationToken",
            "Request is missing Authentication Token".to_owned(),
        ),
        Refusal::Incomplete(what) => (400, "IncompleteSignature", what.clone()),
        Refusal::UnknownKey => (
            403,
            "InvalidClientTokenId",
            "The security token included in the request is invalid.".to_owned(),
        ),
        Refusal::ExpiredToken => (
            403,
            "ExpiredToken",
            "The security token included in the request is expired".to_owned(),
        ),
        Refusal::Scope(what) => (403, "SignatureDoesNotMatch", what.clone()),
        Refusal::Expired { signed, now } => (
            403,
            "SignatureDoesNotMatch",
            format!(
                "Signature expired: {signed} is more than {} min. from {now}",
                SKEW.as_secs() / 60
            ),
        ),
        Refusal::Mismatch => (
            403,
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. \
             Check your AWS Secret Access Key and signing method. Consult the service \
             documentation for details."
                .to_owned(),
        ),
    }
}

/// The Query protocol's parameters: of the query string, and of the form in the body.
fn pairs(request: &http::Request<Bytes>) -> impl Iterator<Item = (String, String)> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .chain(form_urlencoded::parse(request.body()))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
}

/// Checks that a request to a service whose only operation is `known` is for that; its name follows `prefix`.
fn check_target(request: &http::Request<Bytes>, prefix: &str, known: &str) -> Result<(), ApiError> {
    let target = request.headers().get(TARGET);
    let action = target.and_then(|target| target.to_str().ok()?.strip_prefix(prefix));
    if action == Some(known) {
        return Ok(());
    }
    Err(ApiError::client("UnknownOperationException", ""))
}

/// Parses a request to such a service whose input is a document: its text.
fn read_document(
    request: &http::Request<Bytes>,
    prefix: &str,
    known: &str,
) -> Result<Question, ApiError> {
    check_target(request, prefix, known)?;
    let text = String::from_utf8(request.body().to_vec());
    let text =
        text.map_err(|error| ApiError::client("SerializationException", error.to_string()))?;
    Ok(Question {
        action: known.to_owned(),
        params: Params::new([("Body".to_owned(), text)]),
    })
}

/// Parses a request to such a service.
fn read_json(
    request: &http::Request<Bytes>,
    prefix: &str,
    known: &str,
) -> Result<Question, ApiError> {
    check_target(request, prefix, known)?;
    // All members of these operations' inputs are strings.
    let members: std::collections::BTreeMap<String, String> =
        serde_json::from_slice(request.body())
            .map_err(|error| ApiError::client("SerializationException", error.to_string()))?;
    Ok(Question {
        action: known.to_owned(),
        params: Params::new(members),
    })
}

/// The members of a JSON answer.
fn members(answer: &Xml) -> serde_json::Map<String, serde_json::Value> {
    let member = |member: &Xml| {
        let text = member.text.as_deref().unwrap_or_default();
        let value = match text {
            "true" => true.into(),
            "false" => false.into(),
            text => text.into(),
        };
        (member.name.to_owned(), value)
    };
    answer.children.iter().map(member).collect()
}
