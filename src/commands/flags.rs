//! Groups of flags.

mod launch;
mod reach;
mod speed;

pub use launch::Launch;
pub use reach::{REACH, Reach};
pub use speed::Speed;
