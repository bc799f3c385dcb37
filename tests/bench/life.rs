//! xdrive's own share of a session's time: `cargo bench --bench life [-- ROUNDS]`, as root.
//!
//! Two sides live the same three sessions of a new drive, one after the other, round by round:
//!
//! - *the parts* ([`parts`]): the same EC2, SSH and scripts driven in a straight line, with all
//!   that can overlap overlapped, without deciding, recording or reporting anything. What this
//!   takes is the critical path of boot, dockerd, container, commit, shutdown and copies;
//! - *xdrive* ([`program`]): the program itself.
//!
//! xdrive's own time is the difference of the two within a round; the table shows medians. To
//! connect is from the start of the process to the first instruction of the command in the
//! container; to save is from the command's last to the end of the process. In the end a guest
//! joins a session of xdrive beside OpenSSH ([`guest`]), a run is frozen beside bare criu
//! ([`freeze`]), and the program is started alone ([`start`]). Nothing is asserted about time.
//! Everything is made in a directory of its own and removed again, also after a failure, Ctrl-C or
//! SIGTERM.

mod freeze;
mod guest;
mod start;
mod table;

use anyhow::Context as _;

use harness::bench::{Parts, Program, parts, program, run};
use table::Table;

/// The default number of rounds.
const ROUNDS: usize = 5;

/// The write into the container's own layer in the last session, for the commit: incompressible.
const CHANGE: &str = "head -c 200000000 /dev/urandom > /var/tmp/bulk";

/// The sessions of one round: name, and the command between its two stamps.
const SESSIONS: [(&str, &str); 3] = [
    ("new drive, image loaded", ":"),
    ("existing drive", ":"),
    ("existing drive, 200 MB changed", CHANGE),
];

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("life", env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let parts = Parts::new(dir.path())?;
        let program = Program::new(dir.path())?;
        let outcome = tokio::select! {
            outcome = measure(&parts, &program, rounds) => outcome,
            stopped = run::until_signal() => stopped,
        };
        let top = dir.path();
        let cleared = [
            program.end().await,
            run::clear(&top.join(parts::NAME)).await,
            run::clear(&top.join(program::NAME)).await,
        ];
        for cleared in cleared {
            cleared.with_context(|| format!("clearing up {}", top.display()))?;
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
            // The second one finds warm caches of disk and processor: take turns.
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
    let guests = guest::measure(program, &format!("round-{}", rounds - 1)).await?;
    print!("{guests}");
    print!("{}", freeze::measure(program).await?);
    print!("{}", start::measure().await?);
    Ok(())
}
