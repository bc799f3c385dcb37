//! The site and the arguments of a benchmark, the same for all.
//!
//! Everything is made in one directory. It is removed, and what runs in it ended, at the
//! benchmark's end, also after Ctrl-C or SIGTERM.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// The paths that both sides use.
pub(crate) struct Site {
    /// The program.
    pub(crate) program: PathBuf,
    /// Machine trees and images.
    pub(crate) cache: PathBuf,
    /// The directory for everything.
    pub(crate) dir: PathBuf,
}

impl Site {
    /// A new site for the benchmark `name`, and its directory, which is removed when dropped.
    pub(crate) fn new(name: &str) -> anyhow::Result<(Self, TempDir)> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "this benchmark makes namespaces, mounts and loop devices: run it as root"
        );
        let dir = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let site = Self {
            program: env!("CARGO_BIN_EXE_xdrive").into(),
            cache: cache()?,
            dir: dir.path().to_owned(),
        };
        Ok((site, dir))
    }
}

/// The number of rounds: the argument, else `default`. `cargo bench` puts `--bench` before its
/// user's arguments.
pub(crate) fn rounds(default: usize) -> anyhow::Result<usize> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let rounds = words.next().map_or(Ok(default), |word| {
        word.parse()
            .with_context(|| format!("{word:?} is no number of rounds"))
    })?;
    ensure!(rounds > 0, "no rounds, no medians");
    ensure!(
        words.next().is_none(),
        "the number of rounds is all that can be said"
    );
    Ok(rounds)
}

/// The cache into which `shell/setup.sh` puts machine trees and images.
fn cache() -> anyhow::Result<PathBuf> {
    let named =
        |name, below: &str| std::env::var_os(name).map(|base| PathBuf::from(base).join(below));
    let cache = named("XDRIVE_CACHE", "local")
        .or_else(|| named("XDG_CACHE_HOME", "xdrive/local"))
        .or_else(|| named("HOME", ".cache/xdrive/local"))
        .context("HOME is not set")?;
    for needed in ["machine", "jupyter.tar"] {
        ensure!(
            cache.join(needed).exists(),
            "{} is not there: run shell/setup.sh first",
            cache.join(needed).display()
        );
    }
    Ok(cache)
}

/// Ctrl-C or SIGTERM.
pub(crate) async fn stop() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    bail!("stopped")
}

/// Now, as a span since 1970: the containers' clock is this computer's.
pub(crate) fn now() -> anyhow::Result<Duration> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?)
}
