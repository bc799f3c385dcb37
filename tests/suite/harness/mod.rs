//! What tests of several parts share.

mod leaks;

pub(crate) use leaks::leaks;
