//! xdrive: a portable drive that moves between AWS instances.
//!
//! (The architecture in a page stands here when the parts do.)

pub mod clock;
pub mod drive;
pub mod ec2;
pub mod host;
pub mod local;
pub mod signals;
pub mod terminal;
