//! What tests of several parts share.

use std::path::PathBuf;
use std::time::{Duration, Instant};

mod bare;
mod far;
mod image;
mod leaks;
mod pty;
mod python;

pub(crate) use bare::left;
pub(crate) use far::{Distance, Far};
pub(crate) use image::small_image;
pub(crate) use leaks::leaks;
pub(crate) use pty::Pty;
pub(crate) use python::python;

/// How long anything that should happen at once may take: on a machine with four times the work it
/// has processors for, what takes a second alone took up to twenty.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// The cache that the shell scripts fill, by the rule they and xdrive have. What `shell/local/`
/// builds is below `local`.
pub(crate) fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    folder("XDRIVE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("xdrive")))
        .unwrap_or_else(|| folder("HOME").unwrap().join(".cache/xdrive"))
}

/// Polls until `reached`, and fails with `what` when it never is.
pub(crate) fn eventually_within(
    limit: Duration,
    what: impl Fn() -> String,
    mut reached: impl FnMut() -> bool,
) {
    let end = Instant::now() + limit;
    while !reached() {
        assert!(Instant::now() < end, "never: {}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}
