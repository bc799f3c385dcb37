//! The cost of joining: `cargo bench --bench workers [-- ROUNDS]`, as root.
//!
//! A drive with Dask leads 1, then 2, then 4 workers (`xdrive workers`). Measured is, for each number, the time
//! from the command's start until all have joined, and each step of a worker in that; then how many tasks a
//! second Dask computes on them. All of them share this computer's processors: it shows what joining costs,
//! and no speed-up.
//!
//! Dask comes from the index of Python packages that this computer's pip uses. Nothing is asserted about time.
//! Everything is made in a directory of its own and removed again, also after a failure, Ctrl-C or SIGTERM.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use harness::bench::program::succeeded;
use harness::bench::{Program, Spread, program, run};

/// The default number of rounds.
const ROUNDS: usize = 3;

/// The numbers of workers.
const NUMBERS: [usize; 3] = [1, 2, 4];

/// The packages, and where the drive has them.
const PACKAGES: [&str; 1] = ["distributed"];
const PATH: &str = "PYTHONPATH=/work/site";

/// The steps of a worker, in their order: what their lines have, and what they are called here.
const STEPS: [(&str, &str); 8] = [
    ("is completed", "the copy of the save"),
    ("launched ", "launch"),
    (", to be thrown away", "volume"),
    (" is up", "boot"),
    ("logged in ", "login"),
    ("mounted, ", "mount"),
    ("the container", "container"),
    ("joined ", "join"),
];

/// The computation: so many tasks of ten milliseconds each, whose sum is known.
const COMPUTE: &str = "
import sys, time
from distributed import Client
def square(n):
    time.sleep(0.01)
    return n * n
client = Client('tcp://leader:8786')
client.wait_for_workers(int(sys.argv[1]), timeout=120)
began = time.monotonic()
total = client.submit(sum, client.map(square, range(400))).result()
assert total == sum(n * n for n in range(400)), total
print(400 / (time.monotonic() - began))
";

/// The measurements of one number of workers, in one round.
struct Joined {
    /// Until all have joined.
    all: Duration,
    /// The steps of all workers, in seconds.
    steps: BTreeMap<&'static str, Vec<f64>>,
    /// How many tasks a second are computed.
    rate: f64,
}

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("workers", env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let top = dir.path();
        let program = Program::new(top)?;
        let outcome = tokio::select! {
            outcome = measure(top, &program, rounds) => outcome,
            stopped = run::until_signal() => stopped,
        };
        let cleared = run::clear(&top.join(program::NAME)).await;
        cleared.with_context(|| format!("clearing up {}", top.display()))?;
        outcome
    })?;
    dir.close().context("removing the benchmark's directory")
}

async fn measure(top: &Path, program: &Program, rounds: usize) -> anyhow::Result<()> {
    eprintln!("making the drive");
    make_drive(top, program).await?;
    let scheduler = format!("{PATH} exec python3 -m distributed.cli.dask_scheduler --no-dashboard");
    let words = [
        "run",
        "demo",
        "-d",
        "--no-jupyter",
        "--",
        "sh",
        "-c",
        &scheduler,
    ];
    succeeded(program.command().args(words).output().await?)?;
    let mut all: BTreeMap<usize, Vec<Joined>> = BTreeMap::new();
    for round in 0..rounds {
        for number in NUMBERS {
            all.entry(number)
                .or_default()
                .push(join(program, number).await?);
            eprintln!("round {} of {rounds}: {number}", round + 1);
        }
    }
    succeeded(program.command().args(["stop", "demo"]).output().await?)?;
    println!("\nmedians of {rounds} rounds (lowest to highest)\n");
    print!("{:<28}", "workers");
    for number in NUMBERS {
        print!(" {number:>24}");
    }
    println!();
    row("all have joined, s", &all, |it| vec![it.all.as_secs_f64()]);
    for (_, step) in STEPS {
        row(&format!("  {step}, s"), &all, |it| {
            it.steps.get(step).cloned().unwrap_or_default()
        });
    }
    row("tasks a second", &all, |it| vec![it.rate]);
    Ok(())
}

/// Prints the spread of a value for each number of workers.
fn row(name: &str, all: &BTreeMap<usize, Vec<Joined>>, values: impl Fn(&Joined) -> Vec<f64>) {
    print!("{name:<28}");
    for rounds in all.values() {
        let values: Vec<f64> = rounds.iter().flat_map(&values).collect();
        if values.is_empty() {
            print!(" {:>24}", "");
        } else {
            print!(
                " {:>24}",
                Spread::from_values(values.into_iter()).to_string()
            );
        }
    }
    println!();
}

/// Makes the drive, which has Dask.
async fn make_drive(top: &Path, program: &Program) -> anyhow::Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"])
        .arg(top.join("site"))
        .args(PACKAGES);
    succeeded(pip.output().await?).context("pip")?;
    let mut tar = Command::new("tar")
        .args(["-c", "-C"])
        .arg(top)
        .arg("site")
        .stdout(Stdio::piped())
        .spawn()?;
    let packed: Stdio = tar.stdout.take().context("no output")?.try_into()?;
    let words = [
        "connect",
        "demo",
        "--no-jupyter",
        "--",
        "tar",
        "-x",
        "-C",
        "/work",
    ];
    let unpacked = program.command().args(words).stdin(packed).output().await?;
    succeeded(unpacked)?;
    ensure!(tar.wait().await?.success(), "tar");
    Ok(())
}

/// Begins so many workers, has them compute, and ends them.
async fn join(program: &Program, number: usize) -> anyhow::Result<Joined> {
    let count = number.to_string();
    let worker = format!(
        "{PATH} exec python3 -m distributed.cli.dask_worker tcp://leader:8786 \
                          --nthreads 1 --no-dashboard"
    );
    let since = Instant::now();
    let words = ["workers", "demo", &count, "--", "sh", "-c", &worker];
    let begun = succeeded(program.command().args(words).output().await?)?;
    let all = since.elapsed();
    let compute = format!("{PATH} exec python3 -c \"$0\" {count}");
    let words = [
        "connect",
        "demo",
        "--no-jupyter",
        "--",
        "sh",
        "-c",
        &compute,
        COMPUTE,
    ];
    let computed = succeeded(program.command().args(words).output().await?)?;
    let rate = String::from_utf8(computed.stdout)?.trim().parse()?;
    succeeded(
        program
            .command()
            .args(["workers", "demo", "0"])
            .output()
            .await?,
    )?;
    let steps = steps(&String::from_utf8_lossy(&begun.stderr));
    Ok(Joined { all, steps, rate })
}

/// The steps of workers in what a command reported, in seconds: lines `NAME.wN:  SECONDS s  STEP`.
fn steps(report: &str) -> BTreeMap<&'static str, Vec<f64>> {
    let mut steps: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for line in report.lines() {
        let Some((seconds, words)) = line.split_once(" s  ") else {
            continue;
        };
        let Some((_, seconds)) = seconds.split_once(": ") else {
            continue;
        };
        let step = STEPS.iter().find(|(mark, _)| words.contains(mark));
        if let (Some((_, step)), Ok(seconds)) = (step, seconds.trim().parse()) {
            steps.entry(step).or_default().push(seconds);
        }
    }
    steps
}
