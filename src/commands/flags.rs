//! Groups of flags.

mod along;
mod effect;
mod launch;
mod places;
mod reach;
mod speed;

pub use along::{Along, SESSION};
pub use effect::idle;
pub use launch::Launch;
pub use places::Places;
pub use reach::{REACH, Reach};
pub use speed::Speed;

pub use crate::session::Idle;
