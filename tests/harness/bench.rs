//! xdrive and its parts, as the benchmarks run them.

pub mod parts;
pub mod program;
pub mod run;
pub mod spread;

pub use parts::Parts;
pub use program::Program;
pub use spread::Spread;
