//! Groups of flags.

mod launch;
mod places;
mod reach;
mod speed;

pub use launch::Launch;
pub use places::Places;
pub use reach::{REACH, Reach};
pub use speed::Speed;
