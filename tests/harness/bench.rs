//! What the benchmarks share: their directory and arguments, the two sides of a session, and the
//! spread of what they measure.

pub mod parts;
pub mod program;
pub mod site;
pub mod spread;

pub use parts::Parts;
pub use program::Program;
pub use spread::Spread;
