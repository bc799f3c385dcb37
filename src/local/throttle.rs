//! The limits of the EBS direct APIs: so many calls a second, and no more.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::wire::ApiError;

/// Calls a second, by what they are counted for. Each process counts its own.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<HashMap<String, (i64, u32)>>);

impl Throttle {
    /// Counts a call at `now`; refuses it if `most` were made in that second.
    pub(super) fn admit(&self, what: &str, most: u32, now: Timestamp) -> Result<(), ApiError> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (second, count) = counted.entry(what.to_owned()).or_default();
        if *second != now.as_second() {
            (*second, *count) = (now.as_second(), 0);
        }
        *count += 1;
        if *count <= most {
            return Ok(());
        }
        Err(ApiError {
            status: 400,
            code: "RequestThrottledException.ACCOUNT_THROTTLED".to_owned(),
            message: "Request rate limit exceeded.".to_owned(),
        })
    }
}
