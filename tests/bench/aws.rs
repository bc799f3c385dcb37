//! The wait with AWS's own delays: `cargo bench --bench aws [-- ROUNDS]`, as root.
//!
//! Three sides, round by round, for an existing drive:
//!
//! - *the path* ([`path`]): what must come after what (launch, boot, attach, mount, container;
//!   close, snapshot, terminate), summed up from the table of AWS-like delays and from the same
//!   parts' times without any ([`parts`]). No program can be faster; nothing of it is xdrive's own.
//! - *xdrive*, in a terminal, as users start it, against real local instances with these delays.
//! - *by hand*: `by-hand.sh`, the AWS CLI with its own waiters and OpenSSH, in a terminal too,
//!   against the same EC2 on a loopback port.
//!
//! Then the round trips to its host that a session waits for, step by step ([`trips`]): the cost of
//! a far laptop.
//!
//! To connect is from Enter to the prompt in the container; to end is from the Enter behind `exit`
//! to the moment at which EC2 has the instance as shutting down, by its own record. The AWS CLI is
//! the one that `XDRIVE_BENCH_AWS` names (`shell/setup.sh bench` makes one and prints its path),
//! else `aws`. Nothing is asserted about time. Everything is made in a directory of its own and
//! removed again, also after a failure, Ctrl-C or SIGTERM.

mod folder;
mod path;
mod sessions;
mod terminal;
mod trips;
mod verdict;

use anyhow::Context as _;
use xdrive::local::{Delays, Preset};

use folder::Folder;
use harness::bench::{Parts, parts, run};
use path::Path;
use verdict::{Round, Verdict};

/// The default number of rounds: one takes about five minutes, mostly AWS's delays.
const ROUNDS: usize = 3;

/// The session whose parts make the path: the second one of a drive, the first that finds it.
const EXISTING: usize = 1;

fn main() -> anyhow::Result<()> {
    let rounds = run::rounds(ROUNDS)?;
    let dir = run::directory("aws", env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let top = dir.path();
        let parts = Parts::new(top)?;
        let outcome = tokio::select! {
            outcome = measure(top, &parts, rounds) => outcome,
            stopped = run::until_signal() => stopped,
        };
        let cleared = [
            run::clear(&top.join(trips::NAME).join("ec2")).await,
            run::clear(&top.join(folder::NAME)).await,
            run::clear(&top.join(parts::NAME)).await,
        ];
        for cleared in cleared {
            cleared.with_context(|| format!("clearing up {}", top.display()))?;
        }
        outcome
    })?;
    dir.close().context("removing the benchmark's directory")
}

async fn measure(top: &std::path::Path, parts: &Parts, rounds: usize) -> anyhow::Result<()> {
    eprintln!("making the drive");
    let once: &[&str] = &["--", "true"];
    let folder = Folder::with_a_drive(top, &[once], "delays = \"aws\"\n").await?;
    let delays = Delays::new(Preset::Aws);
    Box::pin(parts.session("parts", 0, ":")).await?;
    let mut verdict = Verdict::default();
    for number in 0..rounds {
        let alone = Box::pin(parts.session("parts", EXISTING + number, ":")).await?;
        let path = Path::new(&alone, &delays)?;
        let xdrive = folder.xdrive(top).await.context("xdrive")?;
        let by_hand = folder.by_hand(top).await.context("by hand")?;
        let round = Round {
            path,
            xdrive,
            by_hand,
        };
        eprintln!("round {} of {rounds}: {round}", number + 1);
        verdict.add(round);
    }
    print!("{verdict}");
    print!("{}", Box::pin(trips::prompt(top)).await?);
    parts.forget().await
}
