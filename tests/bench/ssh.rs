//! xdrive beside OpenSSH: `cargo bench --bench ssh [-- ROUNDS]`, as root.
//!
//! `XDRIVE_BENCH_PROGRAM` names an xdrive that is built already, to measure that one.
//!
//! Two sides lead into the same container of the same host, with the same key, ciphers in the same order
//! (but for one row each way, where OpenSSH's are in its own), and over the same network, in turns,
//! round by round:
//!
//! - *xdrive*: a session with forwards, its shell, and guests beside it, as users have them;
//! - *OpenSSH*: the installed client with the same forwards, and `docker exec` in the container.
//!
//! Then files are copied ([`copies`]), and forwards used over a line of 40 ms, which has no other limit.
//!
//! A ratio is xdrive's value over OpenSSH's within a round; the tables have medians. Nothing is
//! asserted about time. Everything is made in a directory of its own and removed again, also after a
//! failure, Ctrl-C or SIGTERM.

mod compared;
mod copies;
mod ends;
mod rivals;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use compared::{Row, Table, at_most, less, more, shown};
use copies::Copies;
use harness::bench::{Program, Spread, program, run};
use harness::{Distance, Far};
use rivals::{Client, Rivals};

/// The default number of rounds.
const ROUNDS: usize = 5;
/// The most rounds of copies and of what is far, which take longer.
const LONG_ROUNDS: usize = 3;
const DRIVE: &str = "bench";
/// Where a folder is in memory.
const MEMORY: &str = "/dev/shm";
/// The bytes of a transfer.
const BULK: u64 = 512 << 20;
/// The bytes through a command.
const CAT: u64 = 1 << 30;
/// How many bytes are typed, one at a time.
const ECHOES: usize = 500;
/// How many short commands are run a round.
const RUNS: usize = 5;
/// The bytes of a transfer over the far line.
const FAR_BULK: u64 = 256 << 20;
const MIB: f64 = 1_048_576.0;

/// The far line.
const DISTANCE: Distance = Distance {
    round_trip: Duration::from_millis(40),
    up: None,
};

const ROWS: [Row; 20] = [
    more("one forward, down", "MiB/s", 2.0),
    more("one forward, up", "MiB/s", 2.5),
    more("the same, OpenSSH's ciphers, down", "MiB/s", 2.0),
    more("the same, OpenSSH's ciphers, up", "MiB/s", 2.5),
    less("client CPU a GiB, down", "s", 0.5),
    less("client CPU a GiB, up", "s", 0.4),
    more("8 forwards at once, down", "MiB/s", 2.0),
    more("8 forwards at once, up", "MiB/s", 2.0),
    more("-- cat of 1 GiB", "MiB/s", 2.0),
    less("one-byte echo, idle, p50", "ms", 0.8),
    less("one-byte echo, idle, p99", "ms", 1.0),
    less("one-byte echo, a full forward, p50", "ms", 1.0),
    less("one-byte echo, a full forward, p99", "ms", 1.0),
    shown("one-byte echo, a stalled reader, p50", "ms"),
    at_most("one-byte echo, a stalled reader, p99", "ms", 50.0),
    shown("memory over idle, a stalled reader", "MiB"),
    less("200 requests at once, p99", "ms", 0.3),
    at_most("memory over idle, 200 connections", "MiB", 32.0),
    shown("memory, idle", "MiB"),
    less("a guest's -- true", "s", 1.2),
];

const FAR_ROWS: [Row; 2] = [
    more("one forward over 40 ms, down", "MiB/s", 2.2),
    more("one forward over 40 ms, up", "MiB/s", 1.1),
];

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("ssh", env!("CARGO_TARGET_TMPDIR"))?;
    let memory = run::directory("ssh", MEMORY)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let top = dir.path();
        let far = Far::new(DISTANCE);
        let afar = top.join("afar");
        let program = Program::new(top)?;
        let from_afar = Program::within(&afar, &far.words())?;
        let outcome = tokio::select! {
            outcome = measure(&program, memory.path(), rounds) => outcome,
            stopped = run::until_signal() => stopped,
        };
        let outcome = match outcome {
            Ok(()) => tokio::select! {
                outcome = measure_afar(&from_afar, &far, rounds.min(LONG_ROUNDS)) => outcome,
                stopped = run::until_signal() => stopped,
            },
            failed => failed,
        };
        let cleared = [
            program.end().await,
            from_afar.end().await,
            run::clear(&top.join(program::NAME)).await,
            run::clear(&afar.join(program::NAME)).await,
        ];
        for cleared in cleared {
            cleared.with_context(|| format!("clearing up {}", top.display()))?;
        }
        outcome
    })?;
    for dir in [dir, memory] {
        dir.close().context("removing the benchmark's directory")?;
    }
    Ok(())
}

async fn measure(program: &Program, memory: &Path, rounds: usize) -> anyhow::Result<()> {
    let mut rivals = Rivals::begin(program, DRIVE).await?;
    let copies = Copies::new(memory, program, DRIVE).await?;
    let tables = tokio::task::spawn_blocking(move || {
        let [xdrive, ssh] = &rivals.clients;
        let idle = [xdrive.idle()?, ssh.idle()?];
        let near = Table::measured(&ROWS, rounds, |side| {
            one(&mut rivals.clients[side], idle[side])
        })?;
        print!("{near}");
        let longer = rounds.min(LONG_ROUNDS);
        print!(
            "{}",
            Table::measured(&copies::ROWS, longer, |side| copies.take(side))?
        );
        rivals.end()
    });
    tables.await?
}

/// Measures from a laptop that is far from the host.
async fn measure_afar(program: &Program, far: &Far, rounds: usize) -> anyhow::Result<()> {
    let rivals = Rivals::begin(program, DRIVE).await?;
    let [_, net] = far.words();
    let namespace = File::open(net.trim_start_matches("--net="))?;
    // Threads begin in the network of the one that makes them.
    let measuring = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        let table = Table::measured(&FAR_ROWS, rounds, |side| {
            let ports = &rivals.clients[side].ports[..1];
            let down = ends::down(ports, FAR_BULK)?;
            let up = ends::up(ports, FAR_BULK)?;
            Ok(vec![down, up])
        })?;
        print!("{table}");
        rivals.end()
    });
    let measured = tokio::task::spawn_blocking(move || measuring.join());
    measured.await?.map_err(|_| anyhow!("a thread panicked"))?
}

/// The values of one client in one round, in the order of [`ROWS`]; `idle` is its memory before, in MiB.
fn one(client: &mut Client, idle: f64) -> anyhow::Result<Vec<f64>> {
    let ports = client.ports.clone();
    let cpu = client.cpu()?;
    let down = ends::down(&ports[..1], BULK)?;
    let cpu_down = client.cpu()? - cpu;
    let cpu = client.cpu()?;
    let up = ends::up(&ports[..1], BULK)?;
    let cpu_up = client.cpu()? - cpu;
    let own_down = ends::down(&[client.own], BULK)?;
    let own_up = ends::up(&[client.own], BULK)?;
    let eight_down = ends::down(&ports, BULK / 8)?;
    let eight_up = ends::up(&ports, BULK / 8)?;
    let cat = ends::cat(&mut client.command(&["cat"]), CAT)?;
    let [p50, p99] = client.shell.echo(ECHOES)?;
    let full = ends::flood(ports[0])?;
    let [full_p50, full_p99] = client.shell.echo(ECHOES)?;
    drop(full);
    let stalled = ends::stalled(ports[0])?;
    let [stalled_p50, stalled_p99] = client.shell.echo(ECHOES)?;
    let stalled_memory = client.memory()? - idle;
    drop(stalled);
    let requests = ends::requests(ports[0], 200)?;
    let open = ends::open(ports[0], 200)?;
    let memory = client.memory()? - idle;
    drop(open);
    let gone = (0..RUNS).map(|_| ends::run(&mut client.command(&["true"])));
    let gone: Vec<f64> = gone.collect::<anyhow::Result<_>>()?;
    let gib = f64::from(u32::try_from(BULK >> 20)?) / 1024.0;
    let values = vec![
        down,
        up,
        own_down,
        own_up,
        cpu_down / gib,
        cpu_up / gib,
        eight_down,
        eight_up,
        cat,
        p50,
        p99,
        full_p50,
        full_p99,
        stalled_p50,
        stalled_p99,
        stalled_memory,
        requests,
        memory,
        idle,
        Spread::from_values(gone.into_iter()).median,
    ];
    Ok(values)
}
