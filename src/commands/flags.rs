//! Groups of flags.

mod launch;
mod reach;
mod speed;

pub use launch::Launch;
pub use reach::Reach;
pub use speed::Speed;
