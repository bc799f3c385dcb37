//! The Debian package, installed where there is no Rust: a local drive's life from it.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;

use crate::release;
use harness::cache;

/// The trial, which makes a Debian.
pub(crate) fn trial() -> Trial {
    release::trial_of(
        "a_drive_lives_where_the_package_is_installed_and_rust_is_not",
        true,
        live,
    )
}

fn live(release: &Path) -> anyhow::Result<()> {
    let package = release::package(release)?;
    let dir = release::directory()?;
    let mut life = Command::new(release::top().join("tests/sweep/package.sh"));
    life.arg(package)
        .arg(dir.path())
        .arg(cache().join("local/downloads"));
    release::run(&mut life)
}
