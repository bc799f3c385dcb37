//! The run of a benchmark: its directory, its arguments and its end.
//!
//! Everything is made in one directory. It is removed, and what runs in it ended, at the
//! benchmark's end, also after Ctrl-C or SIGTERM.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use xdrive::local::plane::Plane as _;

use crate::cloud::plane;
use crate::home::check_cache;
use crate::leaks;

/// How long what was ended may take to go.
const CLEANUP: Duration = Duration::from_secs(10);

/// A new directory for the benchmark `name`, in the directory `top`; it is removed when dropped.
pub fn directory(name: &str, top: &str) -> anyhow::Result<TempDir> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "this benchmark makes namespaces, mounts and loop devices: run it as root"
    );
    check_cache(&["machine", "jupyter.tar"])?;
    let dir = tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(top)?;
    Ok(dir)
}

/// The number of rounds: the argument, else `default`. `cargo bench` puts `--bench` before its
/// user's arguments.
pub fn rounds(default: usize) -> anyhow::Result<usize> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let rounds = words.next().map_or(Ok(default), |word| {
        word.parse()
            .with_context(|| format!("{word:?} is no number of rounds"))
    })?;
    ensure!(rounds > 0, "no rounds, no medians");
    ensure!(
        words.next().is_none(),
        "the number of rounds is the only argument"
    );
    Ok(rounds)
}

/// Waits for Ctrl-C or SIGTERM, which is an error.
pub async fn until_signal() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    bail!("stopped")
}

/// Ends and removes everything of the state directory `dir`, recorded or not; an error if anything
/// is left.
pub async fn clear(dir: &Path) -> anyhow::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    plane(dir).sweep(&[], &[], &[])?;
    let began = Instant::now();
    loop {
        let left = leaks(dir);
        if left.is_empty() {
            return Ok(());
        }
        ensure!(began.elapsed() < CLEANUP, "left: {left:#?}");
        sleep(Duration::from_millis(20)).await;
    }
}
