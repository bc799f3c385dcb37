//! The program under test, and the cache that its homes share.

use std::path::PathBuf;

/// The xdrive that Cargo built for the calling test or benchmark: tests are in `deps`, beside it.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(std::path::Path::parent).unwrap();
    let program = profile.join("xdrive");
    assert!(program.exists(), "no {}", program.display());
    program
}

/// The cache that the shell scripts fill, found by their rule. What `shell/local/` builds is below
/// `local`.
pub fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    folder("XDRIVE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("xdrive")))
        .unwrap_or_else(|| folder("HOME").unwrap().join(".cache/xdrive"))
}
