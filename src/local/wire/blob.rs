//! Blobs, which travel as base64.

/// The bytes in `text`; `None` if it is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    aws_smithy_types::base64::decode(text).ok()
}

/// The base64 of `bytes`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    aws_smithy_types::base64::encode(bytes)
}
