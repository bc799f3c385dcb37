//! In the container: the shell or the command, until it ends or something else ends the session.
//!
//! Looks at everything that can end the middle of a session and says how it ended; what follows
//! from that is the session's to decide, not this file's.

use anyhow::anyhow;

use super::Ending;
use super::container::Inside;
use crate::failure::{Exit, Failure};
use crate::host::container::{CommandId, Signal as ContainerSignal};
use crate::host::{Exit as ShellExit, Line, Shell};
use crate::signals::{Signal, Signals};

/// The interactive shell: keys go there, so that only what comes from outside arrives here.
pub(super) async fn in_a_shell(
    inside: &Inside,
    line: Line,
    signals: &mut Signals,
) -> anyhow::Result<Ending> {
    let term = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    let mut shell = Shell::terminal(line, &inside.container.shell(&term)).await?;
    loop {
        tokio::select! {
            exit = shell.ended() => return Ok(ended(exit)),
            signal = signals.next() => match signal {
                Signal::Resize => shell.resize(),
                Signal::Suspend => shell.suspend()?,
                Signal::Continue => shell.resume()?,
                Signal::Interrupt { .. } | Signal::Terminate | Signal::Hangup => {
                    return Ok(Ending::Asked(signal));
                }
            },
        }
    }
}

/// `-- CMD`: its streams are ours, and Ctrl-C is its own; a second one within two seconds is ours.
pub(super) async fn in_a_command(
    inside: &Inside,
    line: Line,
    command: &[String],
    signals: &mut Signals,
) -> anyhow::Result<Ending> {
    let id = CommandId::new()?;
    let mut shell = Shell::piped(line, &inside.container.command(&id, command)).await?;
    loop {
        tokio::select! {
            exit = shell.ended() => return Ok(ended(exit)),
            signal = signals.next() => match signal {
                Signal::Interrupt { again: false } => {
                    inside.host.signal(&id, ContainerSignal::Interrupt).await?;
                }
                Signal::Interrupt { again: true } | Signal::Terminate | Signal::Hangup => {
                    return Ok(Ending::Asked(signal));
                }
                Signal::Suspend => crate::terminal::suspend()?,
                Signal::Resize | Signal::Continue => {}
            },
        }
    }
}

fn ended(exit: ShellExit) -> Ending {
    match exit {
        ShellExit::Lost(why) => Ending::Failed(
            Failure::new(
                Exit::Disconnected,
                anyhow!("the connection was lost: {why}"),
            )
            .hint("xdrive connect again: what was written to the drive is still there"),
        ),
        other => Ending::Exit(other.code()),
    }
}
