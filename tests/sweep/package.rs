//! The Debian package, installed where there is no Rust: a local drive's life from it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use libtest_mimic::{Completion, Failed, Trial};

use harness::{cache, program};

/// The test; ignored unless `XDRIVE_LONG` is set, because it makes a Debian and installs tools.
pub(crate) fn trial() -> Trial {
    let run = || {
        if std::env::var_os("XDRIVE_LONG").is_none_or(|said| said == "0") {
            return Ok(Completion::ignored_with("takes long: needs XDRIVE_LONG"));
        }
        if !rustix::process::geteuid().is_root() {
            return Ok(Completion::ignored_with("needs root"));
        }
        let lived = live().map(|()| Completion::Completed);
        lived.map_err(|error| Failed::from(format!("{error:?}")))
    };
    let name = "a_drive_lives_where_the_package_is_installed_and_rust_is_not";
    Trial::ignorable_test(name, run).with_ignored_flag(true)
}

fn live() -> anyhow::Result<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Not in memory: it holds a Debian and the images.
    let dir = tempfile::tempdir_in(top.join("target"))?;
    let stripped = dir.path().join("xdrive");
    let mut strip = Command::new("strip");
    run(strip.arg("-o").arg(&stripped).arg(program()))?;
    let mut release = Command::new(top.join("shell/release.sh"));
    run(release.arg("--program").arg(&stripped).arg(dir.path()))?;
    let entries = std::fs::read_dir(dir.path())?.flatten();
    let package = entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("no package was made")?;
    let mut life = Command::new(top.join("tests/sweep/package.sh"));
    life.arg(package)
        .arg(dir.path())
        .arg(cache().join("local/downloads"));
    run(&mut life)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("running {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
