//! The release, as `shell/release.sh` makes it: whole, with the optimised program; and the same
//! again in a clone elsewhere, which is to make the same bytes.
//!
//! `XDRIVE_RELEASE` names the folder of a release that is made already (`shell/release.sh` makes
//! one in `target/dist`), so that a long build is not repeated. Without it one is made there, for
//! all trials.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, bail, ensure};
use libtest_mimic::{Completion, Trial};

use crate::long;

/// The variable that names the folder of a release.
const RELEASE: &str = "XDRIVE_RELEASE";

/// A trial of the release in a folder.
type Run = fn(&Path) -> anyhow::Result<()>;

/// The trial of a second release. It compiles everything once more.
pub(crate) fn trial() -> Trial {
    trial_of(
        "the_same_commit_makes_the_same_release_in_another_folder",
        false,
        is_made_again,
    )
}

/// A trial of the release, which takes long to make.
pub(crate) fn trial_of(name: &str, needs_root: bool, run: Run) -> Trial {
    long::trial(name, needs_root, move || {
        if std::env::var_os(RELEASE).is_none() && !is_committed() {
            let why = "needs a tree without changes, or XDRIVE_RELEASE";
            return Ok(Completion::ignored_with(why));
        }
        run(&release()?)?;
        Ok(Completion::Completed)
    })
}

/// The Debian package in the folder of a release.
pub(crate) fn package(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut names = files(folder)?.into_keys();
    let package = names.find(|name| Path::new(name).extension() == Some(OsStr::new("deb")));
    Ok(folder.join(package.context("no package was made")?))
}

/// A new directory for what is too large to be held in memory.
pub(crate) fn directory() -> anyhow::Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(top().join("target"))?)
}

/// Runs `command`; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("running {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

pub(crate) fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether this is a clone without changes, as a release is made of.
fn is_committed() -> bool {
    let status = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(top())
        .output();
    status.is_ok_and(|status| status.status.success() && status.stdout.is_empty())
}

/// The folder of the release that is tried: the same for all trials.
fn release() -> anyhow::Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = FOLDER.get_or_init(|| find().map_err(|error| format!("{error:?}")));
    found.clone().map_err(anyhow::Error::msg)
}

fn find() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(RELEASE) {
        let found = Path::new(&folder).canonicalize();
        return found.with_context(|| format!("{RELEASE} is {}", folder.display()));
    }
    let folder = top().join("target/dist");
    make(top(), &folder)?;
    Ok(folder)
}

/// Makes the release of the clone `of` in `folder`.
fn make(of: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut script = Command::new(of.join("shell/release.sh"));
    // As a user compiles it, whatever the tests were compiled with.
    script.env_remove("CARGO_TARGET_DIR");
    script.env_remove("RUSTC_WORKSPACE_WRAPPER");
    run(script.arg(folder))
}

/// The files of the release in `folder`, with their checksums, which are checked.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let entries = std::fs::read_dir(folder)?.flatten();
    let names = entries.map(|entry| entry.file_name());
    let sums: Vec<OsString> = names
        .filter(|name| name.to_string_lossy().starts_with("SHA256SUMS-"))
        .collect();
    let [sums] = &sums[..] else {
        bail!(
            "not one file of checksums in {}: {sums:?}",
            folder.display()
        );
    };
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet"]).arg(sums);
    run(check.current_dir(folder))?;
    let text = std::fs::read_to_string(folder.join(sums))?;
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    Ok(lines
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect())
}

/// Makes the release again, in a clone in another folder, and compares all files with those in
/// `first`.
fn is_made_again(first: &Path) -> anyhow::Result<()> {
    let dir = directory()?;
    let clone = dir.path().join("elsewhere");
    let mut git = Command::new("git");
    run(git.args(["clone", "--quiet"]).arg(top()).arg(&clone))?;
    let second = dir.path().join("dist");
    make(&clone, &second)?;
    let (first, second) = (files(first)?, files(&second)?);
    let names = || first.keys().chain(second.keys());
    let differ: Vec<&String> = names()
        .filter(|name| first.get(*name) != second.get(*name))
        .collect();
    ensure!(
        differ.is_empty(),
        "not the same in a clone of this commit: {differ:?}"
    );
    Ok(())
}
