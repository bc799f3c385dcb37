//! xdrive beside OpenSSH: `cargo bench --bench ssh [-- ROUNDS]`, as root.
//!
//! Two sides lead into the same container of the same host, with the same key and over the same
//! network, in turns, round by round:
//!
//! - *xdrive*: a session with forwards, its shell, and guests beside it, as users have them;
//! - *OpenSSH*: the installed client with the same forwards, and `docker exec` in the container.
//!
//! A ratio is xdrive's value over OpenSSH's within a round; the table has medians. Nothing is
//! asserted about time. Everything is made in a directory of its own and removed again, also after a
//! failure, Ctrl-C or SIGTERM.

mod ends;
mod rivals;

use std::fmt;

use anyhow::Context as _;

use harness::bench::{Program, Spread, program, run};
use rivals::{Client, Rivals};

/// The default number of rounds.
const ROUNDS: usize = 5;
const DRIVE: &str = "bench";
/// The bytes of a transfer.
const BULK: u64 = 512 << 20;
const MIB: f64 = 1_048_576.0;

/// What is compared, with its unit and the ratio that is the goal; whether that is the least.
const ROWS: [(&str, &str, f64, bool); 14] = [
    ("one forward, down", "MiB/s", 2.0, true),
    ("one forward, up", "MiB/s", 2.5, true),
    ("client CPU a GiB, down", "s", 0.5, false),
    ("client CPU a GiB, up", "s", 0.4, false),
    ("8 forwards at once, down", "MiB/s", 2.0, true),
    ("-- cat", "MiB/s", 2.0, true),
    ("one-byte echo, idle, p50", "ms", 0.8, false),
    ("one-byte echo, idle, p99", "ms", 1.0, false),
    ("one-byte echo, a full forward, p50", "ms", 1.0, false),
    ("one-byte echo, a full forward, p99", "ms", 1.0, false),
    ("200 requests at once, p99", "ms", 0.3, false),
    ("memory over idle, 200 connections", "MiB", 1.0, false),
    ("a guest's -- true", "s", 1.2, false),
    ("memory, idle", "MiB", 1.0, false),
];

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("ssh", env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let program = Program::new(dir.path())?;
        let outcome = tokio::select! {
            outcome = measure(&program, rounds) => outcome,
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

async fn measure(program: &Program, rounds: usize) -> anyhow::Result<()> {
    let mut rivals = Rivals::begin(program, DRIVE).await?;
    let table = tokio::task::spawn_blocking(move || {
        let mut table = Table::default();
        for round in 0..rounds {
            let first = round % 2;
            let mut values = [[0.0; ROWS.len()]; 2];
            for client in [first, 1 - first] {
                values[client] = one(&mut rivals.clients[client])?;
            }
            eprintln!("round {} of {rounds}", round + 1);
            table.rounds.push(values);
        }
        rivals.end()?;
        anyhow::Ok(table)
    });
    print!("{}", table.await??);
    Ok(())
}

/// The values of one client in one round, in the order of [`ROWS`].
fn one(client: &mut Client) -> anyhow::Result<[f64; ROWS.len()]> {
    let idle = client.memory()?;
    let cpu = client.cpu()?;
    let down = ends::down(&client.ports[..1], BULK)?;
    let cpu_down = client.cpu()? - cpu;
    let cpu = client.cpu()?;
    let up = ends::up(client.ports[0], BULK)?;
    let cpu_up = client.cpu()? - cpu;
    let eight = ends::down(&client.ports, BULK / 8)?;
    let [p50, p99] = client.shell.echo(500)?;
    let full = ends::flood(client.ports[0])?;
    let [full_p50, full_p99] = client.shell.echo(500)?;
    drop(full);
    let requests = ends::requests(client.ports[0], 200)?;
    let open = ends::open(client.ports[0], 200)?;
    let memory = client.memory()?;
    drop(open);
    let cat = ends::cat(&mut client.command(&["cat"]), BULK)?;
    let gone = ends::run(&mut client.command(&["true"]))?;
    let gib = f64::from(u32::try_from(BULK >> 20)?) / 1024.0;
    let values = [
        down,
        up,
        cpu_down / gib,
        cpu_up / gib,
        eight,
        cat,
        p50,
        p99,
        full_p50,
        full_p99,
        requests,
        memory - idle,
        gone,
        idle,
    ];
    Ok(values)
}

/// The values of both clients (xdrive, OpenSSH), round by round.
#[derive(Default)]
struct Table {
    rounds: Vec<[[f64; ROWS.len()]; 2]>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nmedians of {} rounds; ratio: median (lowest to highest)\n\n\
             {:<38} {:>6} {:>9} {:>9} {:>22} {:>8}",
            self.rounds.len(),
            "",
            "",
            "OpenSSH",
            "xdrive",
            "ratio",
            "goal"
        )?;
        for (index, (name, unit, goal, is_least)) in ROWS.into_iter().enumerate() {
            let median = |client: usize| {
                let values = self.rounds.iter().map(|round| round[client][index]);
                Spread::of(values).median
            };
            let ratios = self
                .rounds
                .iter()
                .map(|round| round[0][index] / round[1][index]);
            let (ours, theirs, ratio) = (median(0), median(1), Spread::of(ratios));
            let sign = if is_least { '≥' } else { '≤' };
            let digits = if ours < 10.0 { 2 } else { 0 };
            writeln!(
                f,
                "{name:<38} {unit:>6} {theirs:>9.digits$} {ours:>9.digits$} {ratio:>22} {:>8}",
                format!("{sign} {goal}")
            )?;
        }
        Ok(())
    }
}
