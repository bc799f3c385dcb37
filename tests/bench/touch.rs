//! The wait where a volume's blocks come at their first touch: `cargo bench --bench touch [--
//! ROUNDS]`, as root and with an index of Python packages.
//!
//! A drive has a fat environment (some GB of wheels) below `/work`. Its sessions begin with a volume made from a
//! snapshot: whose blocks are all there (*warm*), come late (*lazy*), come late and in order at the rate that
//! `--warm 300` buys (*rate*), or come late and are fetched by the host as it has them from the sessions before
//! (*hot*). Measured are the spans from the start of the process to the prompt, to the first answer of Jupyter's
//! here, and to the end of the imports; and the share of the drive's data that was asked for. All four go by the same
//! way to the disk, which moves 125 MiB a second as gp3 does. Nothing is asserted about time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use harness::bench::program::{self, succeeded};
use harness::bench::{Program, Spread, run};

/// The default number of rounds.
const ROUNDS: usize = 3;

const DRIVE: &str = "fat";

/// The environment, as pip takes it.
const WHEELS: [&str; 11] = [
    "torch",
    "torchvision",
    "scipy",
    "pandas",
    "scikit-learn",
    "matplotlib",
    "transformers",
    "onnxruntime-gpu",
    "polars",
    "pyarrow",
    "xgboost",
];

/// The imports of it.
const IMPORTS: &str = "import sys; sys.path.insert(0, '/work/site'); \
                       import torch, pandas, sklearn.ensemble, matplotlib.pyplot, scipy.stats";

/// The port of Jupyter's here.
const JUPYTER: u16 = 18_888;

/// The ways in which blocks come: the name, the settings of the EC2, the configuration and flags of xdrive.
const WAYS: [(&str, &str, &str, &[&str]); 4] = [
    (
        "warm",
        "median-ms = 0\np99-ms = 0\nmib-a-second = 1000000",
        "hot = false",
        &[],
    ),
    ("lazy", "", "hot = false", &[]),
    ("rate", "", "hot = false", &["--warm", "300"]),
    ("hot", "", "hot = true", &[]),
];

/// A session, in seconds, and the share of the drive's data that was asked for.
struct Session {
    prompt: f64,
    jupyter: f64,
    imports: f64,
    share: f64,
}

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("touch", env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let program = Program::new(dir.path())?;
        let outcome = tokio::select! {
            outcome = measure(&program, dir.path(), rounds) => outcome,
            stopped = run::until_signal() => stopped,
        };
        let top = dir.path();
        let cleared = [
            program.end().await,
            run::clear(&top.join(program::NAME)).await,
        ];
        for cleared in cleared {
            cleared.with_context(|| format!("clearing up {}", top.display()))?;
        }
        outcome
    })?;
    dir.close().context("removing the benchmark's directory")
}

async fn measure(program: &Program, top: &Path, rounds: usize) -> anyhow::Result<()> {
    let site = environment().await?;
    set(top, "lazy = false", "hot = false")?;
    let mut first = program.command();
    first.args(["connect", DRIVE, "--size", "32G", "--", "true"]);
    succeeded(first.output().await?)?;
    // Not from where it was written, which the kernel may have in its memory.
    let lead = program.lead(DRIVE).await?;
    let mut copy = program.command();
    copy.args(["cp", "-r"])
        .arg(&site)
        .arg(format!("{DRIVE}:/work/"));
    succeeded(copy.output().await?)?;
    program.leave(lead).await?;
    // Two that record.
    for _ in 0..2 {
        let (_, settings, config, flags) = WAYS[3];
        session(program, top, settings, config, flags).await?;
    }
    let mut all: [Vec<Session>; 4] = [const { Vec::new() }; 4];
    for round in 0..rounds {
        for (index, (name, settings, config, flags)) in WAYS.into_iter().enumerate() {
            eprintln!("round {} of {rounds}: {name}", round + 1);
            all[index].push(session(program, top, settings, config, flags).await?);
        }
    }
    show(&all, rounds);
    Ok(())
}

/// Writes the settings of the EC2 and of xdrive.
fn set(top: &Path, volumes: &str, config: &str) -> anyhow::Result<()> {
    let dir = top.join(program::NAME);
    std::fs::write(dir.join("settings.toml"), format!("[volumes]\n{volumes}\n"))?;
    let folder = dir.join("config/xdrive");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config.toml"), format!("{config}\n"))?;
    Ok(())
}

/// The folder that has the environment, which is kept for the next time.
async fn environment() -> anyhow::Result<PathBuf> {
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("touch/site");
    if site.is_dir() {
        return Ok(site);
    }
    let half = site.with_extension("half");
    if half.exists() {
        // Of one that was cut off.
        std::fs::remove_dir_all(&half)?;
    }
    let python = std::env::var_os("XDRIVE_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut pip = Command::new(python);
    // As the image of new drives has it.
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--only-binary=:all:",
    ])
    .args(["--python-version", "3.11", "--target"])
    .arg(&half)
    .args(WHEELS);
    succeeded(pip.output().await?).context("installing wheels")?;
    std::fs::rename(half, &site)?;
    Ok(site)
}

async fn session(
    program: &Program,
    top: &Path,
    settings: &str,
    config: &str,
    flags: &[&str],
) -> anyhow::Result<Session> {
    set(top, &format!("lazy = true\n{settings}"), config)?;
    let began = Instant::now();
    let script = format!("echo prompt; python3 -c \"{IMPORTS}\" && echo imported; read -r _");
    let mut command = program.command();
    command.args(["connect", DRIVE, "--jupyter-port", &JUPYTER.to_string()]);
    let mut child = command
        .args(flags)
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()?;
    let answer = tokio::task::spawn_blocking(move || answered(began));
    let stdout = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut spans = Vec::new();
    for word in ["prompt", "imported"] {
        if lines.next_line().await?.as_deref() != Some(word) {
            let output = child.wait_with_output().await?;
            succeeded(output)?;
            anyhow::bail!("no {word}");
        }
        spans.push(began.elapsed().as_secs_f64());
    }
    let jupyter = answer.await??;
    let share = share(&top.join(program::NAME).join("disks"))?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(b"\n").await?;
    drop(stdin);
    succeeded(child.wait_with_output().await?)?;
    Ok(Session {
        prompt: spans[0],
        jupyter,
        imports: spans[1],
        share,
    })
}

/// How many seconds after `began` Jupyter's server answers here.
fn answered(began: Instant) -> anyhow::Result<f64> {
    while began.elapsed() < Duration::from_mins(5) {
        let asked = TcpStream::connect(("127.0.0.1", JUPYTER)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_mins(1)))?;
            stream.write_all(b"GET /api HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        if asked.is_ok_and(|answer| answer.starts_with("HTTP/1")) {
            return Ok(began.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("Jupyter's server does not answer")
}

/// The share of the blocks with data that were asked for, of the only volume whose blocks come late.
fn share(disks: &Path) -> anyhow::Result<f64> {
    for file in std::fs::read_dir(disks)? {
        let path = file?.path();
        if path.extension().is_some_and(|end| end == "lazy") {
            let map = std::fs::read_to_string(path)?;
            let (_, blocks) = map.split_once('\n').context("no blocks")?;
            let count = |state: char| blocks.matches(state).count();
            let (asked, cold) = (count('w'), count('c'));
            ensure!(asked + cold > 0, "no data");
            return Ok(f64::from(u32::try_from(asked)?) / f64::from(u32::try_from(asked + cold)?));
        }
    }
    anyhow::bail!("no volume comes late")
}

fn show(all: &[Vec<Session>; 4], rounds: usize) {
    println!(
        "\nseconds from Enter, median of {rounds} (lowest to highest), and times of warm\n\n\
         {:<6} {:>28} {:>28} {:>28} {:>8}",
        "", "prompt", "Jupyter", "imports", "asked"
    );
    let spread =
        |of: &[Session], value: fn(&Session) -> f64| Spread::from_values(of.iter().map(value));
    let values: [fn(&Session) -> f64; 3] = [|it| it.prompt, |it| it.jupyter, |it| it.imports];
    for ((name, ..), sessions) in WAYS.iter().zip(all) {
        print!("{name:<6}");
        for value in values {
            let (own, warm) = (spread(sessions, value), spread(&all[0], value));
            print!(" {own:>22} {:>4.1}x", own.median / warm.median);
        }
        println!(" {:>7.1}%", 100.0 * spread(sessions, |it| it.share).median);
    }
}
