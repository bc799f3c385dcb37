//! How much of a session's time is xdrive's own: `cargo bench --bench life [-- ROUNDS]`, as root.
//!
//! Two sides live the same three sessions of a new drive, one after the other, round by round:
//!
//! - *the parts* ([`parts`]): the same EC2, SSH and scripts driven in a straight line, with all that
//!   can overlap overlapped, without deciding, recording or reporting anything. What this takes is
//!   the critical path of boot, dockerd, container, commit, shutdown and copies;
//! - *xdrive* ([`program`]): the program itself.
//!
//! xdrive's own time is the difference of the two within a round; the table shows medians. To
//! connect is from the start of the process to the first instruction of the command in the
//! container; to save is from the command's last to the end of the process. Nothing is asserted
//! about time. Everything is made in a directory of its own and removed again, also after a
//! failure, Ctrl-C or SIGTERM.

mod parts;
mod program;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::signal::unix::{SignalKind, signal};

use parts::Parts;
use program::Program;
use table::Table;

/// Rounds when nobody says otherwise.
const ROUNDS: usize = 5;

/// What is written into the container's own layer in the last session, so that the commit has
/// something to do: incompressible.
const CHANGE: &str = "head -c 200000000 /dev/urandom > /var/tmp/bulk";

/// The sessions of one round: what it is called, what the command does between its two stamps.
const SESSIONS: [(&str, &str); 3] = [
    ("new drive, image loaded", ":"),
    ("existing drive", ":"),
    ("existing drive, 200 MB changed", CHANGE),
];

/// What one session took.
struct Session {
    connect: Duration,
    save: Duration,
    /// Of the parts: each step, in order, with what it took.
    connect_steps: Vec<(String, Duration)>,
    save_steps: Vec<(String, Duration)>,
}

/// What both sides need.
struct Site {
    /// The program.
    program: PathBuf,
    /// Machine trees and images.
    cache: PathBuf,
    /// Where everything is made.
    dir: PathBuf,
}

fn main() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "this benchmark makes namespaces, mounts and loop devices: run it as root"
    );
    let rounds = rounds()?;
    let dir = tempfile::Builder::new()
        .prefix("life-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let site = Site {
        program: env!("CARGO_BIN_EXE_xdrive").into(),
        cache: cache()?,
        dir: dir.path().to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let parts = Parts::new(&site)?;
        let program = Program::new(&site)?;
        let outcome = tokio::select! {
            outcome = measure(&parts, &program, rounds) => outcome,
            stopped = stop() => stopped,
        };
        program.end().await?;
        for side in ["parts", "xdrive"] {
            parts::clear(&site, &site.dir.join(side))
                .await
                .with_context(|| format!("clearing up {}", site.dir.display()))?;
        }
        outcome
    })?;
    dir.close().context("removing the benchmark's directory")
}

async fn measure(parts: &Parts, program: &Program, rounds: usize) -> anyhow::Result<()> {
    let mut table = Table::default();
    for round in 0..rounds {
        let drive = format!("round-{round}");
        for (index, (name, change)) in SESSIONS.into_iter().enumerate() {
            // Whoever comes second finds the disk's and the processor's caches warm: take turns.
            let (alone, whole) = if round % 2 == 0 {
                let alone = Box::pin(parts.session(&drive, index, change)).await?;
                (alone, program.session(&drive, change).await?)
            } else {
                let whole = program.session(&drive, change).await?;
                (Box::pin(parts.session(&drive, index, change)).await?, whole)
            };
            eprintln!(
                "round {} of {rounds}, {name}: connect {:.2} s, parts {:.2} s; save {:.2} s, parts {:.2} s",
                round + 1,
                whole.connect.as_secs_f64(),
                alone.connect.as_secs_f64(),
                whole.save.as_secs_f64(),
                alone.save.as_secs_f64()
            );
            table.add(name, alone, &whole);
        }
        parts.forget().await?;
    }
    print!("{table}");
    Ok(())
}

/// `cargo bench` puts `--bench` before what its user wrote.
fn rounds() -> anyhow::Result<usize> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let rounds = words.next().map_or(Ok(ROUNDS), |word| {
        word.parse()
            .with_context(|| format!("{word:?} is no number of rounds"))
    })?;
    ensure!(rounds > 0, "no rounds, no medians");
    ensure!(words.next().is_none(), "usage: life [ROUNDS]");
    Ok(rounds)
}

/// Where `shell/setup.sh` puts machine trees and images.
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
async fn stop() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    bail!("stopped")
}

/// The command of a session: a stamp, the change, a stamp; nanoseconds since 1970.
fn command(change: &str) -> Vec<String> {
    ["sh", "-c", &format!("date +%s%N; {change}; date +%s%N")]
        .map(str::to_owned)
        .into()
}

/// The two stamps in what a session's command wrote, as spans since 1970.
fn stamps(said: &[u8]) -> anyhow::Result<(Duration, Duration)> {
    let said = String::from_utf8_lossy(said);
    let mut stamps = said
        .lines()
        .map(|line| line.parse().map(Duration::from_nanos));
    match (stamps.next(), stamps.next()) {
        (Some(Ok(first)), Some(Ok(last))) => Ok((first, last)),
        _ => bail!("the command wrote no stamps: {said:?}"),
    }
}

/// Now, as a span since 1970: the containers' clock is this computer's.
fn now() -> anyhow::Result<Duration> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?)
}
