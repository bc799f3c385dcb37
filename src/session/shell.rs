//! The shell or the command in the container, until it ends or a signal asks for the end.
//!
//! Returns its ending; `session.rs` decides what follows.

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::along::shell_name;
use super::container::ContainerSession;
use crate::attached::Reconnector;
use crate::failure::{Exit, Failure};
use crate::host::container::{CommandId, ContainerSignal};
use crate::host::facts::ScriptError;
use crate::opener::Ending;
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::escape::Answers;
use crate::ssh::shell::{Message, Progress, ShellError};
use crate::ssh::{DedicatedConnection, RemoteCommand, Shell, ShellExit};
use crate::terminal;

/// How long a command runs before its host is kept for it: one that is over sooner changes no lease.
const BEGUN: Duration = Duration::from_secs(2);

/// How long the host may take to hang up on a command: a save must not wait longer for it.
const HANG_UP: Duration = Duration::from_secs(3);

/// Runs the interactive shell, or a command in a terminal, and sets whether it has begun. The terminal is raw, so
/// Ctrl-C goes to the remote, and only signals that other processes send arrive here. A lost
/// connection is restored by the `reconnector`.
pub(super) async fn run_shell(
    inside: &mut ContainerSession,
    line: DedicatedConnection,
    reconnector: &mut Reconnector<'_>,
    in_terminal: InTerminal<'_>,
    answers: Answers,
    signals: &mut Signals,
) -> anyhow::Result<Ending> {
    let InTerminal {
        command,
        freezes,
        notice,
        has_begun,
        messages,
    } = in_terminal;
    let mut variables = terminal::variables();
    if !command.is_empty() {
        variables.push(notice_variable(notice));
    }
    let program = inside.container.terminal(&variables, command);
    let name = {
        let mut drive = reconnector.drive.lock().await;
        let session = drive.session().clone();
        // A shell that was left is taken up again by a shell alone.
        let left = inside.left_shell(drive.hosts().terminal());
        shell_name(inside, left.filter(|_| command.is_empty()), &session)
    };
    let terminal = inside.host.terminal(&name, &program, freezes);
    // Before it is asked for, as with one without a terminal.
    *has_begun = !command.is_empty();
    let shell = Shell::terminal(line, terminal, answers).await;
    let mut shell = shell.inspect_err(|error| {
        *has_begun &= !matches!(error, ShellError::NoTerminal(_));
    })?;
    loop {
        let why = tokio::select! {
            exit = shell.wait_for_exit() => match exit {
                ShellExit::Lost(why) => why,
                exit => return Ok(exit.into()),
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

/// The program to run in a terminal: a command, or a shell if it is empty.
pub(super) struct InTerminal<'a> {
    pub(super) command: &'a [String],
    /// Whether a close may freeze it.
    pub(super) freezes: bool,
    /// How long the command may take to end when its instance is taken.
    pub(super) notice: Duration,
    /// Whether the command has begun, as far as it is known.
    pub(super) has_begun: &'a mut bool,
    /// The messages to show in the terminal.
    pub(super) messages: &'a mut UnboundedReceiver<Message>,
}

/// The variable by which the host gives a command that long to end.
pub(super) fn notice_variable(notice: Duration) -> String {
    format!("XDRIVE_NOTICE={}", notice.as_secs())
}

/// A command on the host for this process's streams.
pub(super) struct Piped {
    pub(super) id: CommandId,
    pub(super) remote: RemoteCommand,
    /// Whether it goes on when this computer is switched off.
    pub(super) is_run: bool,
    /// Whether it is started and left alone.
    pub(super) is_detached: bool,
    /// Whether it gets this process's standard input: another try would miss what one has read.
    pub(super) has_input: bool,
    /// How far its streams have come.
    pub(super) progress: Progress,
    /// The command that attaches to it, for hints.
    pub(super) attach: String,
    /// How long its host is kept without a sign of life from here.
    pub(super) lease: Duration,
}

/// Runs a command with this process's streams, and sets whether it `has_begun`. While it runs its
/// host is kept for its lease. An interrupt goes to the command; a
/// second one within two seconds ends the session. A lost connection is restored by the
/// `reconnector`.
pub(super) async fn run_command(
    inside: &mut ContainerSession,
    line: DedicatedConnection,
    reconnector: &mut Reconnector<'_>,
    command: Piped,
    has_begun: &mut bool,
    answers: Answers,
    signals: &mut Signals,
) -> anyhow::Result<Ending> {
    let Piped {
        id,
        remote,
        is_run,
        is_detached,
        has_input,
        progress,
        attach,
        lease,
    } = command;
    // Before it is asked for: the session may end, or its connection, before the host has answered.
    *has_begun = true;
    let remote = if has_input {
        remote
    } else {
        match inside.host.begin(&remote).await {
            // By whoever else tends the run.
            Ok(()) | Err(ScriptError::Begun(_)) => {
                inside.host.command_there(&id).after(progress.arrived())
            }
            Err(error) => {
                *has_begun = matches!(error, ScriptError::Ssh(_));
                return Err(error.into());
            }
        }
    };
    if is_detached {
        return Ok(Ending::Detached);
    }
    let shell = Shell::piped(line, remote, answers, progress).await;
    let mut shell = shell.inspect_err(|error| {
        // One that the host has begun had its keeper then.
        *has_begun = !has_input || !matches!(error, ShellError::NoKeeper(_));
    })?;
    let mut is_kept = false;
    let mut begun = pin!(sleep(BEGUN));
    loop {
        let why = tokio::select! {
            () = &mut begun, if !is_kept => {
                is_kept = true;
                let mut drive = reconnector.drive.lock().await;
                drive.hosts().change_lease(&reconnector.host.id, lease);
                continue;
            }
            exit = shell.wait_for_exit() => match exit {
                ShellExit::Lost(why) => why,
                ShellExit::TakenOver => {
                    let error = anyhow!("another xdrive is attached to the command, which goes on");
                    let failure = Failure::new(Exit::Disconnected, error);
                    let failure = failure.hint(format!("{attach} takes it back"));
                    return Ok(Ending::Failed(failure));
                }
                exit => {
                    // Its reader or its user is gone. On a host that others go on with, only this
                    // ends it.
                    if let ShellExit::Signal { .. } | ShellExit::Escaped = exit {
                        hang_up(inside, &id).await;
                    }
                    return Ok(exit.into());
                }
            },
            signal = signals.next() => match signal {
                Signal::End(End::Interrupt { again: false }) => {
                    match inside.signal(&id, ContainerSignal::Interrupt).await {
                        // The shell reports a lost connection; a second Ctrl-C ends the session.
                        Ok(()) | Err(ScriptError::Ssh(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                    continue;
                }
                Signal::End(End::Hangup | End::Terminate) if is_run => {
                    return Ok(Ending::Detached);
                }
                Signal::End(end) => {
                    hang_up(inside, &id).await;
                    return Ok(Ending::Asked(end));
                }
                Signal::Job(Job::Suspend) => {
                    shell.suspend()?;
                    continue;
                }
                Signal::Job(Job::Continue) | Signal::Resize => continue,
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

/// Ends a command whose session ends before it: it keeps its host no more.
async fn hang_up(inside: &ContainerSession, id: &CommandId) {
    let asked = async {
        tokio::join!(
            inside.signal(id, ContainerSignal::Hangup),
            inside.host.leave_command(id, ""),
        )
    };
    // The save that follows ends it in any case, unless others use the drive.
    let _late = tokio::time::timeout(HANG_UP, asked).await;
}
