//! Moments, as the metadata service writes them.

use jiff::Timestamp;

/// A moment in whole seconds.
pub(super) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
