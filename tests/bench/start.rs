//! The program's own start: `xdrive --version`, from the start of the process to its end.

use std::fmt;

use tokio::process::Command;

use super::guest::timed;
use harness::bench::Spread;
use harness::program;

/// How often it is measured: it is short.
const TIMES: usize = 41;

/// How many milliseconds it may take.
const GOAL: f64 = 20.0;

/// The times in milliseconds.
pub(crate) struct Starts(Spread);

/// Starts the program again and again.
pub(crate) async fn measure() -> anyhow::Result<Starts> {
    let mut version = Command::new(program());
    version.arg("--version");
    // The first start reads it from the disk.
    timed(&mut version).await?;
    let mut times = Vec::new();
    for _ in 0..TIMES {
        times.push(timed(&mut version).await?.as_secs_f64() * 1000.0);
    }
    Ok(Starts(Spread::from_values(times.into_iter())))
}

impl fmt::Display for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(spread) = self;
        writeln!(
            f,
            "\na start: milliseconds, median of {TIMES} times (lowest to highest)\n\n\
             {:<34} {spread:>20} {:>12}",
            "start (--version)",
            spread.against(GOAL),
        )
    }
}
