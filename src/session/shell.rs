//! In the container: the shell or the command, until it ends or something else ends the session.
//!
//! Looks at everything that can end the middle of a session and says how it ended; what follows
//! from that is the session's to decide, not this file's.

use tokio::sync::mpsc::UnboundedReceiver;

use super::container::Inside;
use super::ending::Ending;
use super::reconnect::{Reconnector, connection_lost};
use crate::host::container::{Came, CommandId, Signal as ContainerSignal};
use crate::signals::{Signal, Signals};
use crate::ssh::escape::Answers;
use crate::ssh::shell::Message;
use crate::ssh::{DedicatedConnection, Exit as ShellExit, Shell};

/// The interactive shell: keys go there, so that only what comes from outside arrives here. A lost
/// connection does not end it, as long as there is a way back.
pub(super) async fn in_a_shell(
    inside: &mut Inside,
    line: DedicatedConnection,
    reconnector: &mut Reconnector<'_>,
    answers: Answers,
    signals: &mut Signals,
    words: &mut UnboundedReceiver<Message>,
) -> anyhow::Result<Ending> {
    let command = inside.container.shell(&term());
    let name = {
        let mut drive = reconnector.drive.lock().await;
        let hosts = drive.hosts();
        match inside.container.came {
            Came::Running => hosts.terminal().to_owned(),
            // What was left behind ended with the container that it was in.
            Came::Started | Came::Created | Came::Recreated(_) => hosts.session().to_owned(),
        }
    };
    let terminal = inside.host.terminal(&name, &command);
    let mut shell = Shell::terminal(line, terminal, answers).await?;
    loop {
        let why = tokio::select! {
            exit = shell.ended() => match exit {
                ShellExit::Lost(why) => why,
                exit => return Ok(ended(exit)),
            },
            Some(word) = words.recv() => {
                shell.print(word);
                continue;
            }
            signal = signals.next() => match signal {
                Signal::Resize => {
                    shell.resize();
                    continue;
                }
                Signal::Suspend => {
                    shell.suspend()?;
                    continue;
                }
                Signal::Continue => {
                    shell.resume()?;
                    continue;
                }
                Signal::Interrupt { .. } | Signal::Terminate | Signal::Hangup => {
                    return Ok(Ending::Asked(signal));
                }
            },
        };
        if let Some(ending) = reconnector
            .come_back(&mut shell, inside, signals, &why)
            .await?
        {
            return Ok(ending);
        }
    }
}

/// The kind of this terminal.
pub(super) fn term() -> String {
    std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned())
}

/// `-- CMD`: its streams are ours, and Ctrl-C is its own; a second one within two seconds is ours.
pub(super) async fn in_a_command(
    inside: &Inside,
    line: DedicatedConnection,
    command: &[String],
    hint: &str,
    signals: &mut Signals,
) -> anyhow::Result<Ending> {
    let id = CommandId::new()?;
    let mut shell = Shell::piped(line, &inside.container.command(&id, command)).await?;
    loop {
        tokio::select! {
            exit = shell.ended() => return Ok(match exit {
                // Its streams are cut, and nobody could put them together again.
                ShellExit::Lost(why) => Ending::Failed(connection_lost(&why, hint)),
                exit => ended(exit),
            }),
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

/// What the end of a shell or command means for the session.
pub(super) fn ended(exit: ShellExit) -> Ending {
    match exit {
        ShellExit::Detached => Ending::Detached,
        exit => Ending::Exit(exit.code()),
    }
}
