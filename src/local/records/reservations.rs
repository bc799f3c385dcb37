//! The records of On-Demand Capacity Reservations.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Token;

/// Capacity of one type in one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CapacityReservation {
    pub(crate) token: Option<Token>,
    pub(crate) kind: String,
    pub(crate) platform: String,
    pub(crate) zone: String,
    pub(crate) tenancy: String,
    /// How many instances it is for.
    pub(crate) count: u32,
    /// Whether only launches that name it run in it.
    pub(crate) targeted: bool,
    pub(crate) created: Timestamp,
    /// When it expires, if it does.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) cancelled: Option<Timestamp>,
}

impl CapacityReservation {
    /// The reservation's state at `at` as EC2 writes it; none before it was made.
    pub(crate) fn state(&self, at: Timestamp) -> Option<&'static str> {
        let past = |stamp: Option<Timestamp>| stamp.is_some_and(|stamp| stamp <= at);
        if at < self.created {
            return None;
        }
        Some(if past(self.cancelled) {
            "cancelled"
        } else if past(self.expires) {
            "expired"
        } else {
            "active"
        })
    }
}
