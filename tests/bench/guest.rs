//! A guest beside OpenSSH: the time to join another terminal's session, run a command and leave,
//! and the time of `ssh HOST docker exec CONTAINER true` on the same host.
//!
//! Both are whole processes with the same key, from their start to their end, in turns.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::process::Command;

use harness::bench::program::succeeded;
use harness::bench::{Program, Spread};

/// How often each is measured: they are short.
const TIMES: usize = 9;

/// How many times as long as OpenSSH a guest may take.
const GOAL: f64 = 1.2;

/// The times of (OpenSSH, xdrive) in seconds, round by round.
pub(crate) struct Guests(Vec<(f64, f64)>);

/// Leads a session of `drive`, and compares the two.
pub(crate) async fn measure(program: &Program, drive: &str) -> anyhow::Result<Guests> {
    let lead = program.lead(drive).await?;
    let words = program.ssh(drive).await?;
    let mut ssh = Command::new(&words[0]);
    let container = format!("xdrive-{drive}");
    ssh.args(&words[1..])
        .args(["docker", "exec", &container, "true"]);
    let mut guest = program.connect(drive);
    guest.arg("true");
    // OpenSSH's first connection records the host's key.
    timed(&mut ssh).await?;
    let mut rounds = Vec::new();
    for round in 0..TIMES {
        let (by_ssh, by_xdrive) = if round % 2 == 0 {
            let by_ssh = timed(&mut ssh).await?;
            (by_ssh, timed(&mut guest).await?)
        } else {
            let by_xdrive = timed(&mut guest).await?;
            (timed(&mut ssh).await?, by_xdrive)
        };
        rounds.push((by_ssh.as_secs_f64(), by_xdrive.as_secs_f64()));
    }
    program.leave(lead).await?;
    Ok(Guests(rounds))
}

/// The time of a process, from its start to its end.
pub(crate) async fn timed(command: &mut Command) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let output = command.output().await?;
    let took = began.elapsed();
    succeeded(output)?;
    Ok(took)
}

impl fmt::Display for Guests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |value: fn(&(f64, f64)) -> f64| Spread::from_values(self.0.iter().map(value));
        let ratio = of(|(by_ssh, by_xdrive)| by_xdrive / by_ssh);
        writeln!(
            f,
            "\na guest: seconds, medians of {TIMES} times (lowest to highest)\n\n\
             {:<34} {:>20} {:>20} {:>20} {:>12}\n\
             {:<34} {:>20} {:>20} {:>20} {:>12}",
            "",
            "ssh … docker exec",
            "xdrive",
            "ratio",
            "goal",
            "join, run a command, leave",
            of(|(by_ssh, _)| *by_ssh),
            of(|(_, by_xdrive)| *by_xdrive),
            ratio,
            ratio.against(GOAL),
        )
    }
}
