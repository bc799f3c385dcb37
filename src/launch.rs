//! What to launch.

pub(crate) mod image;
