//! A session in a terminal, timed as its user would time it.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use portable_pty::CommandBuilder;
use tokio::time::sleep;

use super::site::now;
use harness::Pty;

/// The end of the prompt in the container, of any shell.
const PROMPT: &str = "/work#";

/// The pause between two looks at the screen.
const AGAIN: Duration = Duration::from_millis(2);

/// Longer than any session, by hand with 15 s between two polls included.
const LONGEST: Duration = Duration::from_mins(8);

/// A session, by the clock of this computer.
pub(crate) struct Sat {
    /// From Enter to the prompt.
    pub(crate) connect: Duration,
    /// When `exit` was entered, since 1970.
    pub(crate) left: Duration,
    /// From then to the end of the program.
    pub(crate) end: Duration,
}

/// Starts `command`, waits for the prompt, types `exit`, and waits for the end.
pub(crate) async fn sit(command: CommandBuilder) -> anyhow::Result<Sat> {
    let began = Instant::now();
    let mut pty = Pty::start(command);
    while pty.sent(PROMPT) == 0 {
        ensure!(pty.ended().is_none(), "no prompt:\n{}", pty.contents());
        ensure!(began.elapsed() < LONGEST, "no prompt:\n{}", pty.contents());
        sleep(AGAIN).await;
    }
    let connect = began.elapsed();
    let (entered, left) = (Instant::now(), now()?);
    pty.type_in("exit\r");
    loop {
        match pty.ended() {
            Some(0) => break,
            Some(code) => bail!("it ended with {code}:\n{}", pty.contents()),
            None => {}
        }
        ensure!(entered.elapsed() < LONGEST, "no end:\n{}", pty.contents());
        sleep(AGAIN).await;
    }
    if std::env::var_os("XDRIVE_BENCH_VERBOSE").is_some() {
        eprintln!("{}", pty.contents());
    }
    Ok(Sat {
        connect,
        left,
        end: entered.elapsed(),
    })
}
