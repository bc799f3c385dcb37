//! Elastic File System on the wire: requests in the path, its query and in JSON, answers in JSON.
//!
//! Sources: EFS API reference; smithy.io, *AWS restJson1 protocol*. A document's members become parameters,
//! as the Query protocol has them: `Tags` is `Tag.1.Key`, and so on.

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::message::{Answer, ApiError, Question};
use super::rest::{JSON, error_type};
use super::{Params, Xml};

/// The beginning of all its paths: the API's version.
const VERSION: &str = "2015-02-01";

const ACTIONS: [&str; 9] = [
    "CreateFileSystem",
    "DescribeFileSystems",
    "DeleteFileSystem",
    "PutLifecycleConfiguration",
    "DescribeLifecycleConfiguration",
    "CreateMountTarget",
    "DescribeMountTargets",
    "DescribeMountTargetSecurityGroups",
    "DeleteMountTarget",
];

/// Whether this service has an action of this name.
pub(super) fn is_action(action: &str) -> bool {
    ACTIONS.contains(&action)
}

/// Whether a request is for this service, by its path.
pub(super) fn is_for_shares(request: &http::Request<Bytes>) -> bool {
    request.uri().path().split('/').nth(1) == Some(VERSION)
}

/// Parses a request.
pub(super) fn read(request: &http::Request<Bytes>) -> Result<Question, ApiError> {
    let path: Vec<&str> = request.uri().path().split('/').skip(2).collect();
    let (action, id) = match (request.method().as_str(), &path[..]) {
        ("POST", ["file-systems"]) => ("CreateFileSystem", None),
        ("GET", ["file-systems"]) => ("DescribeFileSystems", None),
        ("DELETE", ["file-systems", id]) => ("DeleteFileSystem", Some(("FileSystemId", *id))),
        (method, ["file-systems", id, "lifecycle-configuration"]) => {
            let of = Some(("FileSystemId", *id));
            match method {
                "PUT" => ("PutLifecycleConfiguration", of),
                "GET" => ("DescribeLifecycleConfiguration", of),
                _ => return Err(unknown()),
            }
        }
        ("POST", ["mount-targets"]) => ("CreateMountTarget", None),
        ("GET", ["mount-targets"]) => ("DescribeMountTargets", None),
        ("DELETE", ["mount-targets", id]) => ("DeleteMountTarget", Some(("MountTargetId", *id))),
        ("GET", ["mount-targets", id, "security-groups"]) => (
            "DescribeMountTargetSecurityGroups",
            Some(("MountTargetId", *id)),
        ),
        _ => return Err(unknown()),
    };
    let mut params = Params::default();
    let mut add = |name: String, value: String| {
        if params.add(name.clone(), value) {
            return Ok(());
        }
        Err(bad(format!("{name} is given twice")))
    };
    if let Some((name, value)) = id {
        add(name.to_owned(), value.to_owned())?;
    }
    let query = request.uri().query().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        add(name.into_owned(), value.into_owned())?;
    }
    if matches!(*request.method(), Method::POST | Method::PUT) {
        let body: Value = serde_json::from_slice(request.body())
            .map_err(|error| bad(format!("the document cannot be read: {error}")))?;
        flatten(String::new(), &body, &mut add)?;
    }
    Ok(Question {
        action: action.to_owned(),
        params,
    })
}

/// Adds what a document has, each value by its path.
fn flatten(
    at: String,
    value: &Value,
    add: &mut impl FnMut(String, String) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let below = |name: &str| match at.as_str() {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    match value {
        Value::Null => Ok(()),
        Value::Bool(value) => add(at, value.to_string()),
        Value::Number(value) => add(at, value.to_string()),
        Value::String(value) => add(at, value.clone()),
        Value::Array(items) => (1..).zip(items).try_for_each(|(number, item): (usize, _)| {
            flatten(below(&number.to_string()), item, add)
        }),
        Value::Object(members) => members.iter().try_for_each(|(name, value)| {
            // As the Query protocol names them.
            let name = if name == "Tags" { "Tag" } else { name };
            flatten(below(name), value, add)
        }),
    }
}

/// Writes an answer, which is a document already, or nothing.
pub(super) fn write(answer: Xml) -> Answer {
    let body = answer.children.into_iter().next();
    Answer {
        status: match body {
            Some(_) => StatusCode::OK,
            None => StatusCode::NO_CONTENT,
        },
        content_type: JSON,
        headers: Vec::new(),
        body: body.map(|body| body.data).unwrap_or_default().into(),
    }
}

/// Writes an error, with EC2's codes translated to this service's. That for a token which has a file system
/// names that in its document, too, as its message does.
pub(super) fn write_error(error: &ApiError) -> Answer {
    let (status, code) = match error.code.as_str() {
        "RequestLimitExceeded" => (429, "ThrottlingException"),
        "InvalidParameterValue" | "MissingParameter" | "UnknownParameter" => (400, "BadRequest"),
        code if error.status >= 500 && !code.ends_with("Exception") => (500, "InternalServerError"),
        code => (error.status, code),
    };
    let mut body = json!({"ErrorCode": code, "Message": error.message});
    if code == "FileSystemAlreadyExists" {
        body["FileSystemId"] = error.message.split('\'').nth(1).into();
    }
    Answer {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        content_type: JSON,
        headers: error_type(code),
        body: body.to_string().into(),
    }
}

fn unknown() -> ApiError {
    ApiError {
        status: 404,
        code: "UnknownOperationException".to_owned(),
        message: String::new(),
    }
}

fn bad(message: String) -> ApiError {
    ApiError::client("BadRequest", message)
}
