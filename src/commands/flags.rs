//! Groups of flags.

mod effect;
mod launch;
mod reach;

pub use effect::ineffective;
pub use launch::Launch;
pub use reach::Reach;

pub use crate::session::Ineffective;
