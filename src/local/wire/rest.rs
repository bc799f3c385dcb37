//! The EBS direct APIs on the wire: requests in the path, answers in JSON, blocks as they are.
//!
//! Sources: EBS direct APIs reference, `ListSnapshotBlocks`, `ListChangedBlocks`,
//! `GetSnapshotBlock`; smithy.io, *AWS
//! restJson1 protocol*. An error's reason, which only this service has, follows a dot in its code
//! until it is written: `ValidationException.INVALID_BLOCK_TOKEN`.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value, json};

use super::message::{Answer, ApiError, Question};
use super::{Params, Xml};

/// The content type of answers without a block.
pub(super) const JSON: &str = "application/json";

const LIST: &str = "ListSnapshotBlocks";
const CHANGED: &str = "ListChangedBlocks";
const GET: &str = "GetSnapshotBlock";

/// Whether this service has an action of this name.
pub(super) fn is_action(action: &str) -> bool {
    matches!(action, LIST | CHANGED | GET)
}

/// Whether a request is for this service: the others use no paths of this kind.
pub(super) fn is_for_blocks(request: &http::Request<Bytes>) -> bool {
    request.uri().path().starts_with("/snapshots")
}

/// Parses a request.
pub(super) fn read(request: &http::Request<Bytes>) -> Result<Question, ApiError> {
    let unknown = || ApiError {
        status: 404,
        code: "UnknownOperationException".to_owned(),
        message: String::new(),
    };
    if request.method() != Method::GET {
        return Err(unknown());
    }
    let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let (action, mut params) = match path[..] {
        ["snapshots", id, "blocks"] => (LIST, vec![("SnapshotId", id.to_owned())]),
        ["snapshots", id, "changedblocks"] => (CHANGED, vec![("SecondSnapshotId", id.to_owned())]),
        ["snapshots", id, "blocks", index] => (
            GET,
            vec![
                ("SnapshotId", id.to_owned()),
                ("BlockIndex", index.to_owned()),
            ],
        ),
        _ => return Err(unknown()),
    };
    let query = request.uri().query().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let name = match (action, name.as_ref()) {
            (LIST | CHANGED, "maxResults") => "MaxResults",
            (LIST | CHANGED, "pageToken") => "NextToken",
            (LIST | CHANGED, "startingBlockIndex") => "StartingBlockIndex",
            (CHANGED, "firstSnapshotId") => "FirstSnapshotId",
            (GET, "blockToken") => "BlockToken",
            _ => {
                return Err(ApiError::client(
                    "ValidationException.INVALID_PARAMETER_VALUE",
                    format!("The parameter {name} is not recognized"),
                ));
            }
        };
        params.push((name, value.into_owned()));
    }
    Ok(Question {
        action: action.to_owned(),
        params: Params::new(params.into_iter().map(|(name, value)| (name.into(), value))),
    })
}

/// Writes an answer.
pub(super) fn write(mut answer: Xml) -> Answer {
    let of_block = |child: &Xml| child.name == "BlockData";
    let Some(block) = answer.children.iter().position(of_block) else {
        return Answer {
            status: StatusCode::OK,
            content_type: JSON,
            headers: Vec::new(),
            body: list(&answer).to_string().into(),
        };
    };
    let data = answer.children.swap_remove(block).data;
    let header = |name: &'static str, of: &str| {
        let value = HeaderValue::from_str(text(&answer, of)?).ok()?;
        Some((HeaderName::from_static(name), value))
    };
    let headers = [
        header("x-amz-data-length", "DataLength"),
        header("x-amz-checksum", "Checksum"),
        header("x-amz-checksum-algorithm", "ChecksumAlgorithm"),
    ];
    Answer {
        status: StatusCode::OK,
        content_type: "application/octet-stream",
        headers: headers.into_iter().flatten().collect(),
        body: data.into(),
    }
}

/// Writes an error, with EC2's codes translated to this service's.
pub(super) fn write_error(error: &ApiError) -> Answer {
    let (code, reason) = match error.code.split_once('.') {
        Some((code, reason)) => (code, Some(reason)),
        None => (error.code.as_str(), None),
    };
    let (status, code) = match code {
        "RequestLimitExceeded" => (400, "RequestThrottledException"),
        code if code.ends_with("Exception") => (error.status, code),
        _ if error.status >= 500 => (500, "InternalServerException"),
        _ => (400, "ValidationException"),
    };
    let mut body = Map::from_iter([("Message".to_owned(), error.message.clone().into())]);
    if let Some(reason) = reason {
        body.insert("Reason".to_owned(), reason.into());
    }
    Answer {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        content_type: JSON,
        headers: error_type(code),
        body: Value::Object(body).to_string().into(),
    }
}

/// The header in which JSON services repeat an error's code.
pub(super) fn error_type(code: &str) -> Vec<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_static("x-amzn-errortype");
    HeaderValue::from_str(code)
        .map(|code| (name, code))
        .into_iter()
        .collect()
}

fn list(answer: &Xml) -> Value {
    let number = |of: &Xml, name| text(of, name).and_then(|text| text.parse::<i64>().ok());
    let lists = ["Blocks", "ChangedBlocks"];
    let blocks = answer.children.iter();
    let blocks = blocks.filter(|child| lists.contains(&child.name));
    let blocks = blocks.map(|list| {
        let block = |block: &Xml| {
            let field = |field: &Xml| {
                let value = match number(block, field.name) {
                    Some(index) if field.name == "BlockIndex" => json!(index),
                    _ => json!(field.text),
                };
                (field.name.to_string(), value)
            };
            Value::Object(block.children.iter().map(field).collect())
        };
        let blocks: Vec<Value> = list.children.iter().map(block).collect();
        (list.name.to_string(), Value::from(blocks))
    });
    let rest = json!({
        "ExpiryTime": number(answer, "ExpiryTime"),
        "VolumeSize": number(answer, "VolumeSize"),
        "BlockSize": number(answer, "BlockSize"),
        "NextToken": text(answer, "NextToken"),
    });
    let Value::Object(rest) = rest else {
        return Value::Null;
    };
    Value::Object(blocks.chain(rest).collect())
}

fn text<'a>(of: &'a Xml, name: &str) -> Option<&'a str> {
    let child = of.children.iter().find(|child| child.name == name)?;
    child.text.as_deref()
}
