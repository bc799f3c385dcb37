//! Faults on demand: the next calls of an action fail as AWS's do, before or after their effect.
//!
//! They are part of the state, so they work across processes: a test plants one, a program under
//! test meets it. Nothing plants one by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::wire::{ApiError, Params};

/// A fault that is waiting for its call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The action it meets, such as `RunInstances`.
    pub action: String,
    /// The parameters that the call must have, with their values; empty meets any call.
    pub matching: BTreeMap<String, String>,
    /// Whether the call is carried out before it fails: a lost answer.
    pub carried_out: bool,
    /// How many calls it still meets.
    pub times: u32,
    /// HTTP status of the answer.
    pub status: u16,
    /// AWS's error code.
    pub code: String,
    /// AWS's message.
    pub message: String,
}

impl Fault {
    /// A fault that makes one call of `action` fail with `code` (HTTP `status`), nothing carried
    /// out.
    #[must_use]
    pub fn new(action: &str, status: u16, code: &str, message: &str) -> Self {
        Self {
            action: action.to_owned(),
            matching: BTreeMap::new(),
            carried_out: false,
            times: 1,
            status,
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    /// EC2's answer when a pool (type, zone, market) is empty: HTTP 500, as AWS sends it.
    #[must_use]
    pub fn no_capacity(instance_type: &str, times: u32) -> Self {
        Self {
            matching: BTreeMap::from([("InstanceType".into(), instance_type.into())]),
            times,
            ..Self::new(
                "RunInstances",
                500,
                "InsufficientInstanceCapacity",
                "We currently do not have sufficient capacity in the Availability Zone you \
                 requested. Our system will be working on provisioning additional capacity.",
            )
        }
    }

    /// EC2's answer to too many calls.
    #[must_use]
    pub fn throttled(action: &str, times: u32) -> Self {
        Self {
            times,
            ..Self::new(
                action,
                503,
                "RequestLimitExceeded",
                "Request limit exceeded.",
            )
        }
    }

    /// The call is carried out, its answer is lost.
    #[must_use]
    pub fn answer_lost(action: &str) -> Self {
        Self {
            carried_out: true,
            ..Self::new(
                action,
                500,
                "InternalError",
                "An internal error has occurred",
            )
        }
    }

    fn meets(&self, action: &str, params: &Params) -> bool {
        self.times > 0
            && self.action == action
            && self
                .matching
                .iter()
                .all(|(name, value)| params.get(name) == Some(value.as_str()))
    }

    fn answer(&self) -> ApiError {
        ApiError {
            status: self.status,
            code: self.code.clone(),
            message: self.message.clone(),
        }
    }
}

/// Whether any of `faults` waits for this call.
pub(super) fn waiting(faults: &[Fault], action: &str, params: &Params) -> bool {
    faults.iter().any(|fault| fault.meets(action, params))
}

/// Takes the first of `faults` that waits for this call: its error, and whether the call is
/// carried out before.
pub(super) fn take(
    faults: &mut Vec<Fault>,
    action: &str,
    params: &Params,
) -> Option<(ApiError, bool)> {
    let fault = faults
        .iter_mut()
        .find(|fault| fault.meets(action, params))?;
    fault.times -= 1;
    let taken = (fault.answer(), fault.carried_out);
    faults.retain(|fault| fault.times > 0);
    Some(taken)
}
