//! Fault Injection Service on the wire: requests in the path and in JSON, answers in JSON.
//!
//! Sources: AWS FIS API reference; smithy.io, *AWS restJson1 protocol*.

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;

use super::message::{Answer, ApiError, Question};
use super::rest::{JSON, error_type};
use super::{Params, Xml};

const CREATE: &str = "CreateExperimentTemplate";
const DELETE: &str = "DeleteExperimentTemplate";
const START: &str = "StartExperiment";
const GET: &str = "GetExperiment";

/// Whether this service has an action of this name.
pub(super) fn is_action(action: &str) -> bool {
    matches!(action, CREATE | DELETE | START | GET)
}

/// Whether a request is for this service, by its path.
pub(super) fn is_for_experiments(request: &http::Request<Bytes>) -> bool {
    request.uri().path().starts_with("/experiment")
}

/// Parses a request.
pub(super) fn read(request: &http::Request<Bytes>) -> Result<Question, ApiError> {
    let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let (action, name, value) = match (request.method(), &path[..]) {
        (&Method::POST, ["experimentTemplates"]) => (CREATE, "Body", text(request)?),
        (&Method::DELETE, ["experimentTemplates", id]) => (DELETE, "Id", (*id).to_owned()),
        (&Method::POST, ["experiments"]) => (START, "Body", text(request)?),
        (&Method::GET, ["experiments", id]) => (GET, "Id", (*id).to_owned()),
        _ => {
            return Err(ApiError {
                status: 404,
                code: "UnknownOperationException".to_owned(),
                message: String::new(),
            });
        }
    };
    Ok(Question {
        action: action.to_owned(),
        params: Params::new([(name.to_owned(), value)]),
    })
}

fn text(request: &http::Request<Bytes>) -> Result<String, ApiError> {
    String::from_utf8(request.body().to_vec())
        .map_err(|error| ApiError::client("SerializationException", error.to_string()))
}

/// Writes an answer, which is a document already.
pub(super) fn write(answer: Xml) -> Answer {
    let body = answer.children.into_iter().next();
    Answer {
        status: StatusCode::OK,
        content_type: JSON,
        headers: Vec::new(),
        body: body.map(|body| body.data).unwrap_or_default().into(),
    }
}

/// Writes an error, with EC2's codes translated to this service's.
pub(super) fn write_error(error: &ApiError) -> Answer {
    let (status, code) = match error.code.as_str() {
        "RequestLimitExceeded" => (429, "ThrottlingException"),
        code if code.ends_with("Exception") => (error.status, code),
        _ if error.status >= 500 => (500, "InternalServerException"),
        _ => (400, "ValidationException"),
    };
    Answer {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        content_type: JSON,
        headers: error_type(code),
        body: json!({"message": error.message}).to_string().into(),
    }
}
