//! Blobs, which travel as base64.

/// The bytes in `text`; `None` if it is not base64.
pub(in crate::local) fn decode(text: &str) -> Option<Vec<u8>> {
    aws_smithy_types::base64::decode(text).ok()
}

/// The base64 of `bytes`.
pub(in crate::local) fn encode(bytes: &[u8]) -> String {
    aws_smithy_types::base64::encode(bytes)
}
