//! How a command on the host begins: a channel, the host's word, and for a terminal its first line.

use std::time::Duration;

use bytes::Bytes;
use russh::ChannelMsg;

use super::ShellError;
use crate::ssh::channel::{Session, TerminalRequest};
use crate::ssh::connection::{Ssh, SshError};
use crate::ssh::modes;
use crate::ssh::terminal::{Attached, FirstLine, Terminal};
use crate::terminal;

/// How long the host may take to open a terminal and start a command: three round trips of that are
/// the line's, a second at 300 ms.
const START: Duration = Duration::from_secs(15);

/// A shell that has begun before anybody asked for it.
pub(crate) struct Begun {
    /// The words of its command.
    command: String,
    session: Session,
    attached: Attached,
    rest: Bytes,
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Begun").field(&self.attached).finish()
    }
}

impl Begun {
    /// Attaches to the terminal that the host chooses for a session, once that has arrived there.
    /// None if it chooses none.
    pub(crate) async fn waiting(
        ssh: &Ssh,
        terminal: &Terminal,
    ) -> Result<Option<Self>, ShellError> {
        let (session, attached, rest) = attached(ssh, &terminal.arrive()).await?;
        let begun = Self {
            command: terminal.command().to_owned(),
            session,
            attached,
            rest,
        };
        Ok((attached != Attached::Gone).then_some(begun))
    }
}

/// Opens a session and waits until the host has started `command`, between pipes.
pub(super) async fn piped(ssh: &Ssh, command: &str) -> Result<Session, SshError> {
    in_time(ssh, start(ssh, command, None)).await
}

/// What `begun` has, if it runs what `terminal` is to run; else as [`attached`].
pub(super) async fn begun_or_attached(
    ssh: &Ssh,
    terminal: &Terminal,
    begun: Option<Begun>,
) -> Result<(Session, Attached, Bytes), ShellError> {
    match begun.filter(|begun| begun.command == terminal.command()) {
        Some(begun) => {
            // What happened to its size meanwhile nobody could tell it.
            begun.session.sender.resize(terminal::size()).await;
            Ok((begun.session, begun.attached, begun.rest))
        }
        None => attached(ssh, &terminal.start()).await,
    }
}

/// Opens a session with a terminal as the local one is now, and waits for the first line of
/// `command`, which attaches to a [`crate::ssh::terminal`]. Also what came after that line.
pub(super) async fn attached(
    ssh: &Ssh,
    command: &str,
) -> Result<(Session, Attached, Bytes), ShellError> {
    let request = TerminalRequest {
        term: std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned()),
        size: terminal::size(),
        modes: modes::encode(&terminal::modes()?),
    };
    let starting = async {
        let mut session = start(ssh, command, Some(&request)).await?;
        let mut line = FirstLine::default();
        loop {
            match session.messages.wait().await {
                Some(ChannelMsg::Data { data }) => match line.take(&data) {
                    Ok(None) => {}
                    Ok(Some((attached, rest))) => return Ok(Ok((session, attached, rest))),
                    Err(words) => return Ok(Err(ShellError::NoTerminal(words))),
                },
                Some(ChannelMsg::Close) => return Ok(Err(ShellError::NoTerminal(line.words()))),
                None => return Err(ssh.why_ended().await),
                Some(_) => {}
            }
        }
    };
    let (session, attached, rest) = in_time(ssh, starting).await??;
    // It may have changed while the host was asked, when nobody could be told.
    let size = terminal::size();
    if size != request.size {
        session.sender.resize(size).await;
    }
    Ok((session, attached, rest))
}

async fn in_time<T>(
    ssh: &Ssh,
    starting: impl Future<Output = Result<T, SshError>>,
) -> Result<T, SshError> {
    let late = |_| SshError::Lost(ssh.address(), "no answer for 15 seconds".to_owned());
    tokio::time::timeout(START, starting).await.map_err(late)?
}

async fn start(
    ssh: &Ssh,
    command: &str,
    terminal: Option<&TerminalRequest>,
) -> Result<Session, SshError> {
    let mut session = ssh.exec(command, terminal).await?;
    let mut answers = vec!["to run a command"];
    if terminal.is_some() {
        answers.push("a terminal");
    }
    while let Some(answer) = answers.pop() {
        loop {
            match session.messages.wait().await {
                Some(ChannelMsg::Success) => break,
                Some(ChannelMsg::Failure) => {
                    return Err(SshError::Refused(ssh.address(), answer.to_owned()));
                }
                Some(ChannelMsg::Close) | None => return Err(ssh.why_ended().await),
                // Window adjustments; no data comes before the answer.
                Some(_) => {}
            }
        }
    }
    Ok(session)
}
