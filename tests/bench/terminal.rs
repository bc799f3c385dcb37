//! A session in a terminal, timed as its user would time it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use portable_pty::CommandBuilder;
use tokio::time::sleep;

use harness::Pty;
use harness::bench::parts::now;

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
    wait(&mut pty, LONGEST, "prompt", |pty| {
        has_prompt(pty) || pty.exit_code().is_some()
    })
    .await?;
    let connect = began.elapsed();
    ensure!(has_prompt(&pty), "no prompt:\n{}", pty.contents());
    let (entered, left) = (Instant::now(), now()?);
    pty.type_in("exit\r");
    let mut code = None;
    wait(&mut pty, LONGEST, "end", |pty| {
        code = pty.exit_code();
        code.is_some()
    })
    .await?;
    let end = entered.elapsed();
    ensure!(
        code == Some(0),
        "it ended with {code:?}:\n{}",
        pty.contents()
    );
    if std::env::var_os("XDRIVE_BENCH_VERBOSE").is_some() {
        eprintln!("{}", pty.contents());
    }
    Ok(Sat { connect, left, end })
}

/// Whether the prompt has come.
pub(crate) fn has_prompt(pty: &Pty) -> bool {
    pty.sent(PROMPT) > 0
}

/// Waits until `reached`, at most `limit`; `what` names what is waited for.
pub(crate) async fn wait(
    pty: &mut Pty,
    limit: Duration,
    what: &str,
    mut reached: impl FnMut(&mut Pty) -> bool,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while !reached(pty) {
        ensure!(
            began.elapsed() < limit,
            "no {what} within {limit:?}:\n{}",
            pty.contents()
        );
        sleep(AGAIN).await;
    }
    Ok(())
}
