//! Groups of flags.

mod effect;
mod reach;

pub use effect::idle;
pub use reach::Reach;

pub use crate::session::Idle;
