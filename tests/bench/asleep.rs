//! The files of a drive that is asleep: `cargo bench --bench asleep [-- ROUNDS]`, as root.
//!
//! A drive of 100 GiB has two generations, between which 1 GiB of its 2 GiB changed, and some of
//! its 20 000 small files. Each call to EC2 takes 100 ms, and what EC2 does takes as long as on AWS.
//! Measured is, round by round:
//!
//! - the first byte of a small file (`xdrive cat`), and how many calls that takes; beside it
//!   `by-hand.sh`, which launches an instance, attaches the drive, mounts it and has it printed;
//! - the bytes a second of a large one (`xdrive cp`);
//! - what differs between the two generations (`xdrive diff`).
//!
//! `XDRIVE_BENCH_PROGRAM` names an xdrive that is built already. The AWS CLI is the one that
//! `XDRIVE_BENCH_AWS` names (`shell/setup.sh bench` makes one and prints its path), else `aws`.
//! Nothing is asserted about time. Everything is made in a directory of its own and removed again,
//! also after a failure, Ctrl-C or SIGTERM.

mod folder;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use xdrive::local::{Delays, Preset};

use folder::{DRIVE, Folder};
use harness::bench::program::succeeded;
use harness::bench::{Spread, run};
use harness::program;

/// The default number of rounds: one takes two minutes, mostly those of the instance.
const ROUNDS: usize = 3;

/// The delays of AWS, and a laptop that is far from it.
const SETTINGS: &str = "delays = \"aws\"\ncalls-take-ms = 100\n";

/// The first generation: two files of 1 GiB, and 20 000 small ones in 200 folders.
const FIRST: &str = "set -e; cd /work; head -c 1G /dev/urandom >large; head -c 1G /dev/urandom >other; \
    for d in $(seq 200); do mkdir -p many/$d; \
    for f in $(seq 100); do echo $d $f >many/$d/$f; done; done";

/// The changes of the second snapshot: the large file, and a small one in each folder.
const SECOND: &str = "set -e; cd /work; head -c 1G /dev/urandom >large; \
    for d in $(seq 200); do echo changed >many/$d/50; done";

/// The differences: the large file, and those in the folders.
const DIFFERENT: usize = 201;

/// The mebibytes of the large file.
const LARGE: f64 = 1024.0;

/// The measurements of a round.
struct Round {
    first_byte: Duration,
    calls: f64,
    by_hand: Duration,
    copied: Duration,
    compared: Duration,
    comparing: f64,
}

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("asleep", env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let top = dir.path();
        let outcome = tokio::select! {
            outcome = measure(top, rounds) => outcome,
            stopped = run::until_signal() => stopped,
        };
        let cleared = run::clear(&top.join(folder::NAME)).await;
        cleared.with_context(|| format!("clearing up {}", top.display()))?;
        outcome
    })?;
    dir.close().context("removing the benchmark's directory")
}

async fn measure(top: &Path, rounds: usize) -> anyhow::Result<()> {
    eprintln!("making the drive");
    let first: &[&str] = &["--size", "100", "--no-jupyter", "--", "sh", "-c", FIRST];
    let second: &[&str] = &["--no-jupyter", "--", "sh", "-c", SECOND];
    let folder = Folder::with_a_drive(top, &[first, second], SETTINGS).await?;
    // Until no list has the last session's instance any more.
    tokio::time::sleep(Delays::new(Preset::Aws).settle()).await;
    let mut all = Vec::new();
    for number in 0..rounds {
        all.push(round(&folder, top).await?);
        eprintln!("round {} of {rounds}", number + 1);
    }
    let of = |value: fn(&Round) -> f64| Spread::from_values(all.iter().map(value));
    let seconds = |value: fn(&Round) -> Duration| {
        Spread::from_values(all.iter().map(|round| value(round).as_secs_f64()))
    };
    let first_byte = seconds(|round| round.first_byte);
    let calls = of(|round| round.calls);
    let rate = of(|round| LARGE / round.copied.as_secs_f64());
    let compared = seconds(|round| round.compared);
    println!(
        "\na drive of 100 GiB, asleep; 100 ms a call; medians of {rounds} rounds (lowest to highest)\n\n\
         {:<44} {:>22} {:>14}\n\
         {:<44} {first_byte:>22} {:>14}\n\
         {:<44} {calls:>22} {:>14}\n\
         {:<44} {:>22}\n\
         {:<44} {rate:>22} {:>14}\n\
         {:<44} {compared:>22} {:>14}\n\
         {:<44} {:>22}",
        "",
        "",
        "goal",
        "first byte of a file, s",
        first_byte.against(2.0),
        "calls for it: blocks, and lists of them",
        calls.against(40.0),
        "the same by hand, with an instance, s",
        seconds(|round| round.by_hand),
        "1 GiB, MiB/s",
        rate.against_least(200.0),
        "diff of two generations, 1 GiB changed, s",
        compared.against(30.0),
        "calls for it",
        of(|round| round.comparing),
    );
    Ok(())
}

async fn round(folder: &Folder, top: &Path) -> anyhow::Result<Round> {
    let small = format!("{DRIVE}:many/77/33");
    let mut cat = xdrive(folder);
    let (first_byte, errors) = until_first_byte(cat.args(["cat", &small])).await?;
    let calls = calls(&errors)?;
    let words = folder.script()?;
    let mut script = Command::new(&words[0]);
    script.args(&words[1..]).arg("work/many/77/33");
    script
        .env_clear()
        .envs(folder.environment().iter().cloned());
    script.envs(folder.pointers.iter().cloned());
    let (by_hand, _) = until_first_byte(&mut script).await?;
    let to = top.join("large");
    let began = Instant::now();
    let mut copy = xdrive(folder);
    copy.args(["cp", &format!("{DRIVE}:large")]).arg(&to);
    succeeded(copy.output().await?)?;
    let copied = began.elapsed();
    std::fs::remove_file(to)?;
    let began = Instant::now();
    let generations = [1, 2].map(|number| format!("{DRIVE}@{number}"));
    let mut diff = xdrive(folder);
    let diff = diff.arg("diff").args(generations).output().await?;
    let compared = began.elapsed();
    let diff = succeeded(diff)?;
    let found = String::from_utf8_lossy(&diff.stdout).lines().count();
    ensure!(found == DIFFERENT, "{found} differences");
    Ok(Round {
        first_byte,
        calls,
        by_hand,
        copied,
        compared,
        comparing: self::calls(&String::from_utf8_lossy(&diff.stderr))?,
    })
}

/// The program, without a verb.
fn xdrive(folder: &Folder) -> Command {
    let mut command = Command::new(program());
    command.arg("--local").stdin(Stdio::null());
    command
        .env_clear()
        .envs(folder.environment().iter().cloned());
    command
}

/// Runs a command to its end: the time until its first byte, and its standard error.
async fn until_first_byte(command: &mut Command) -> anyhow::Result<(Duration, String)> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdout = child.stdout.take().context("no output")?;
    let first = stdout.read_u8().await;
    let took = began.elapsed();
    let mut nowhere = tokio::io::sink();
    let rest = tokio::io::copy(&mut stdout, &mut nowhere);
    let (output, _) = tokio::join!(child.wait_with_output(), rest);
    let errors = succeeded(output?)?.stderr;
    first.context("it printed nothing")?;
    Ok((took, String::from_utf8(errors)?))
}

/// How many calls all the snapshots' files took, by what a command says at its end.
fn calls(errors: &str) -> anyhow::Result<f64> {
    let counts = errors.lines().filter_map(|line| {
        let (before, _) = line.split_once(" calls, ")?;
        before.rsplit(' ').next()?.parse::<f64>().ok()
    });
    let counts: Vec<f64> = counts.collect();
    ensure!(
        !counts.is_empty(),
        "it does not say what it read:\n{errors}"
    );
    Ok(counts.iter().sum())
}
