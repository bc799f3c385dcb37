//! The shell or the command in the container, until it ends or a signal asks for the end.
//!
//! Returns its ending; `session.rs` decides what follows.

use tokio::sync::mpsc::UnboundedReceiver;

use super::container::Inside;
use super::ending::Ending;
use super::reconnect::{Reconnector, connection_lost};
use crate::host::container::{Came, CommandId, ContainerSignal};
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::escape::Answers;
use crate::ssh::shell::Message;
use crate::ssh::{DedicatedConnection, Shell, ShellExit};

/// Runs the interactive shell. The terminal is raw, so Ctrl-C goes to the remote, and only signals
/// that other processes send arrive here. A lost connection is restored by the `reconnector`.
pub(super) async fn run_shell(
    inside: &mut Inside,
    line: DedicatedConnection,
    reconnector: &mut Reconnector<'_>,
    answers: Answers,
    signals: &mut Signals,
    messages: &mut UnboundedReceiver<Message>,
) -> anyhow::Result<Ending> {
    let command = inside.container.shell(&term());
    let name = {
        let mut drive = reconnector.drive.lock().await;
        let own = drive.session().to_string();
        match inside.container.came {
            Came::Running => drive.hosts().terminal().map_or(own, str::to_owned),
            // An earlier session's shell has ended with its container.
            Came::Started | Came::Created | Came::Recreated(_) => own,
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
            Some(message) = messages.recv() => {
                shell.print(message);
                continue;
            }
            signal = signals.next() => match signal {
                Signal::Resize => {
                    shell.resize();
                    continue;
                }
                Signal::Job(Job::Suspend) => {
                    shell.suspend()?;
                    continue;
                }
                Signal::Job(Job::Continue) => {
                    shell.resume()?;
                    continue;
                }
                Signal::End(end) => return Ok(Ending::Asked(end)),
            },
        };
        if let Some(ending) = reconnector
            .reconnect(&mut shell, inside, signals, &why)
            .await?
        {
            return Ok(ending);
        }
    }
}

/// The type of this terminal, as `TERM` has it.
pub(super) fn term() -> String {
    std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned())
}

/// Runs the command of `-- CMD` with this process's streams. An interrupt goes to the command; a
/// second one within two seconds ends the session.
pub(super) async fn run_command(
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
                // A command's streams cannot be resumed on another connection.
                ShellExit::Lost(why) => Ending::Failed(connection_lost(&why, hint)),
                exit => ended(exit),
            }),
            signal = signals.next() => match signal {
                Signal::End(End::Interrupt { again: false }) => {
                    inside.host.signal(&id, ContainerSignal::Interrupt).await?;
                }
                Signal::End(end) => return Ok(Ending::Asked(end)),
                Signal::Job(Job::Suspend) => crate::terminal::suspend()?,
                Signal::Job(Job::Continue) | Signal::Resize => {}
            },
        }
    }
}

/// The ending of a session whose shell or command has ended.
pub(super) fn ended(exit: ShellExit) -> Ending {
    match exit {
        ShellExit::Detached => Ending::Detached,
        exit => Ending::Exit(exit.code()),
    }
}
