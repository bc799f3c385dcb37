//! The start of a shell's command on the host: a channel, the host's reply, and for a terminal its
//! first line.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use russh::ChannelMsg;

use super::channel::{Session, TerminalRequest};
use super::command::{self, Answer};
use super::connection::Ssh;
use super::error::SshError;
use super::first_line::FirstLine;
use super::modes;
use super::terminal::{self, Attached, Terminal};
use xdrive_ground::terminal as local;

/// How long the host may take to open a terminal and start a command; three round trips of it are
/// the link's, a second at 300 ms.
const START: Duration = Duration::from_secs(15);
/// How much of what a program prints to standard error before its first line is kept, in bytes: it is
/// the reason why there is none.
const WORDS: usize = 4 << 10;

/// Why a shell could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The connection or the host.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The local terminal or standard streams.
    #[error("cannot use the terminal: {0}")]
    Local(#[from] io::Error),
    /// The host has no terminal for it, for example without python3: its output.
    #[error("the host has no terminal for a shell: {0}")]
    NoTerminal(String),
    /// The host cannot keep a command, for example without python3: its output.
    #[error("the host cannot run a command: {0}")]
    NoKeeper(String),
    /// The host leads nothing to the agent of this computer: its output.
    #[error("the host leads nothing to the agent: {0}")]
    NoAgent(String),
}

/// A shell that was begun early, before the session knows that it needs it.
pub struct Begun {
    /// The shell's command, as one string for a shell.
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
    /// Attaches to the terminal that the host chooses for a session, once the session has arrived
    /// there. None if it chooses none.
    pub async fn waiting(ssh: &Ssh, terminal: &Terminal) -> Result<Option<Self>, ShellError> {
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

/// Opens a session and waits for the first line of `command`, which attaches to a
/// [`super::command`]. Also returns what came after that line.
pub(super) async fn piped(
    ssh: &Ssh,
    command: &str,
) -> Result<(Session, Answer, Bytes), ShellError> {
    let starting = async {
        let mut session = start(ssh, command, None).await?;
        let answered = first_line(ssh, &mut session, command::PREFIX, Answer::parse).await?;
        Ok(answered
            .map(|(answer, rest)| (session, answer, rest))
            .map_err(ShellError::NoKeeper))
    };
    in_time(ssh, starting).await?
}

/// Opens a session with the agent of this computer, and waits for the first line of `command`, the
/// path of the agent's socket on the host.
pub(super) async fn with_agent(ssh: &Ssh, command: &str) -> Result<Session, ShellError> {
    let starting = async {
        let mut session = ssh.exec_with_agent(command).await?;
        confirmed(ssh, &mut session, &["to forward the agent", TO_RUN]).await?;
        let parse = |path: &str| Some(path.to_owned());
        let answered = first_line(ssh, &mut session, "xdrive: agent=", parse).await?;
        Ok(answered.map(|_| session).map_err(ShellError::NoAgent))
    };
    in_time(ssh, starting).await?
}

/// The shell that has `begun`, if it runs the command of `terminal`; else as [`attached`].
pub(super) async fn begun_or_attached(
    ssh: &Ssh,
    terminal: &Terminal,
    begun: Option<Begun>,
) -> Result<(Session, Attached, Bytes), ShellError> {
    match begun.filter(|begun| begun.command == terminal.command()) {
        Some(begun) => {
            // The size may have changed since it was begun.
            begun.session.sender.resize(local::size()).await;
            Ok((begun.session, begun.attached, begun.rest))
        }
        None => attached(ssh, &terminal.start()).await,
    }
}

/// Opens a session with a terminal like the local one, and waits for the first line of `command`,
/// which attaches to a [`super::terminal`]. Also returns what came after that line.
pub(super) async fn attached(
    ssh: &Ssh,
    command: &str,
) -> Result<(Session, Attached, Bytes), ShellError> {
    let request = TerminalRequest {
        term: local::term(),
        size: local::size(),
        modes: modes::encode(&local::modes()?),
    };
    let starting = async {
        let mut session = start(ssh, command, Some(&request)).await?;
        let answered = first_line(ssh, &mut session, terminal::PREFIX, Attached::parse).await?;
        Ok(answered
            .map(|(attached, rest)| (session, attached, rest))
            .map_err(ShellError::NoTerminal))
    };
    let (session, attached, rest) = in_time(ssh, starting).await??;
    // It may have changed before the session could take a resize.
    let size = local::size();
    if size != request.size {
        session.sender.resize(size).await;
    }
    Ok((session, attached, rest))
}

/// Waits for the first line of a session, `prefix` and what `parse` parses. Returns that and the
/// bytes after the line; the inner error is any other output.
async fn first_line<T>(
    ssh: &Ssh,
    session: &mut Session,
    prefix: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<Result<(T, Bytes), String>, SshError> {
    let mut line = FirstLine::new(prefix);
    let mut words = String::new();
    loop {
        match session.messages.wait().await {
            Some(ChannelMsg::Data { data }) => match line.read(&data) {
                Ok(None) => {}
                Ok(Some((answer, rest))) => {
                    return Ok(parse(&answer).map(|it| (it, rest)).ok_or(answer));
                }
                Err(output) => return Ok(Err(output)),
            },
            Some(ChannelMsg::ExtendedData { data, .. }) => {
                let room = WORDS.saturating_sub(words.len());
                words.push_str(&String::from_utf8_lossy(&data[..data.len().min(room)]));
            }
            Some(ChannelMsg::Close) => {
                words.push_str(&line.text());
                return Ok(Err(words.trim().to_owned()));
            }
            None => return Err(ssh.why_ended().await),
            Some(_) => {}
        }
    }
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
    match terminal {
        Some(_) => confirmed(ssh, &mut session, &["a terminal", TO_RUN]).await?,
        None => confirmed(ssh, &mut session, &[TO_RUN]).await?,
    }
    Ok(session)
}

/// The name of a command's request, for the error if the host refuses it.
const TO_RUN: &str = "to run a command";

/// Waits until the host has granted each of these, in their order.
async fn confirmed(ssh: &Ssh, session: &mut Session, asked: &[&str]) -> Result<(), SshError> {
    for asked in asked {
        loop {
            match session.messages.wait().await {
                Some(ChannelMsg::Success) => break,
                Some(ChannelMsg::Failure) => {
                    return Err(SshError::Refused(ssh.address(), (*asked).to_owned()));
                }
                Some(ChannelMsg::Close) | None => return Err(ssh.why_ended().await),
                // Window adjustments; no data comes before the answer.
                Some(_) => {}
            }
        }
    }
    Ok(())
}
