//! The parts that all protocols here share: a parsed request, the parts of an answer, and an error.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use super::params::Params;

/// A request's action and parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) action: String,
    pub(super) params: Params,
}

/// An answer, without the headers that all answers have.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    /// The service's own headers, such as `x-amzn-errortype`.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// A call refused, as AWS writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// AWS's error code, such as `InvalidVolume.NotFound`.
    pub code: String,
    /// AWS's message.
    pub message: String,
}

impl ApiError {
    /// A client error (HTTP 400).
    pub fn client(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code: code.into(),
            message: message.into(),
        }
    }
}
