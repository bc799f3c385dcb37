//! The sections of the help of `connect` and `run`.

/// A section of the help. Flags that a first day needs are in none: they stand at the top, and are all
/// that `-h` shows.
pub(super) const LAUNCH: &str = "What to launch";
/// See [`LAUNCH`].
pub(super) const DRIVE: &str = "The drive";
/// See [`LAUNCH`].
pub(super) const CONTAINER: &str = "The container";
/// See [`LAUNCH`].
pub(super) const SESSION: &str = "The session";
/// See [`LAUNCH`].
pub(super) const REACH: &str = "How hosts are reached";
