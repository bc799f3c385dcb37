//! The capacity reservation that a launch is for, and why nothing can be launched in it.

use std::fmt;

use super::requirements::Requirements;
use crate::ids::ReservationId;

/// The reservation of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The id.
    pub id: ReservationId,
    /// The types, or resources, that were asked for beside it: its own type has to meet them.
    pub asked: Option<Requirements>,
}

/// Why a launch into a reservation is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreserved {
    /// EC2 does not know it.
    Missing,
    /// The reservation is in this state, and not active.
    State(String),
    /// Instances run in all of so many places.
    Full(u32),
    /// The reservation is for a type that does not meet what was asked for.
    Type {
        /// The reservation's type.
        own: String,
        /// The requirements.
        asked: Requirements,
    },
    /// The reservation is for something that xdrive does not launch, in words.
    Kind(String),
}

impl Unreserved {
    /// Whether it may have room later, or had it before.
    #[must_use]
    pub fn is_lack(&self) -> bool {
        matches!(self, Self::Missing | Self::State(_) | Self::Full(_))
    }
}

impl fmt::Display for Unreserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is none of this id in this region"),
            Self::State(state) => write!(f, "it is {state}, and not active"),
            Self::Full(1) => f.write_str("an instance runs in its only place"),
            Self::Full(total) => write!(f, "instances run in all of its {total} places"),
            Self::Type { own, asked } => write!(f, "it is for {own}, and {asked} is asked for"),
            Self::Kind(what) => write!(f, "it is {what}, which xdrive does not launch in"),
        }
    }
}
