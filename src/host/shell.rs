//! A command on the host that a person or a pipe is attached to.
//!
//! Two forms: in a terminal ([`Shell::terminal`]: raw mode, resizing, escapes), and between pipes
//! ([`Shell::piped`]: standard input, output and error are the command's own, byte for byte).
//! Whoever holds the session waits for [`Shell::ended`] beside everything else that may end it,
//! and passes signals on; dropping the shell gives the terminal back and hangs up.
//!
//! Never here: deciding what an ending means, and printing, except for the echo of an escape.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use russh::{ChannelMsg, Sig};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::channel::{Sender, Session, TerminalRequest, signal_number};
use super::escape::{Escapes, HELP, Typed};
use super::line::Line;
use super::modes;
use super::ssh::{Ssh, SshError};
use super::streams::{Sink, Source, Stop};
use crate::terminal::{self, Raw, Screen};

/// How long the host may take to open a terminal and start a command.
const START: Duration = Duration::from_secs(15);
/// How much typed input waits for a dead link before reading stops (and escapes with it).
const TYPED: usize = 4 << 20;
/// How much piped input is read ahead of what the host takes.
const PIPED: usize = 256 << 10;
/// How long a terminal that takes no output is waited for at the end of a session.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Why a shell could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The connection or the host.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The local terminal or standard streams.
    #[error("cannot use the terminal: {0}")]
    Local(#[from] io::Error),
}

/// How a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// The command ended with this status.
    Status(u32),
    /// A signal ended the command, or it was cut off because nobody reads its output any more.
    Signal {
        /// The signal's number on Linux; 0 if it has no number here.
        number: u32,
    },
    /// The user typed `~.`, or closed the terminal.
    Escaped,
    /// The connection ended first; why.
    Lost(String),
}

impl Exit {
    /// The exit code to end with: the command's, 128 + n for signal n, 255 as ssh if it has none.
    #[must_use]
    pub fn code(&self) -> u8 {
        let code = match self {
            Self::Status(status) => status & 0xff,
            Self::Signal { number } => 128 + number,
            Self::Escaped | Self::Lost(_) => 255,
        };
        u8::try_from(code).unwrap_or(255)
    }
}

/// A running command with local ends.
#[derive(Debug)]
pub struct Shell {
    pump: JoinHandle<Exit>,
    requests: mpsc::UnboundedSender<Request>,
    exit: Option<Exit>,
    typing: Option<Stop>,
    raw: Option<Raw>,
}

/// What is sent beside the data.
#[derive(Debug)]
enum Request {
    Resize,
    Signal(Sig),
}

impl Shell {
    /// Runs `command` in a terminal on the host, attached to the local terminal, which is in raw
    /// mode from here on until the shell has ended.
    pub async fn terminal(line: Line, command: &str) -> Result<Self, ShellError> {
        let request = TerminalRequest {
            term: std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned()),
            size: terminal::size(),
            modes: modes::encode(&terminal::modes()?),
        };
        let session = start(&line.ssh, command, Some(&request)).await?;
        let ends = Ends::open(&line, TYPED)?;
        let screen = Some((Escapes::default(), Screen::default()));
        let typing = ends.input.stop()?;
        let raw = Some(Raw::enter()?);
        let shell = Self::spawn(session, ends, screen, (typing, raw), line);
        // It may have changed while the host was asked, when nobody could be told.
        if terminal::size() != request.size {
            shell.resize();
        }
        Ok(shell)
    }

    /// Runs `command` on the host between the local standard streams.
    pub async fn piped(line: Line, command: &str) -> Result<Self, ShellError> {
        let session = start(&line.ssh, command, None).await?;
        let ends = Ends::open(&line, PIPED)?;
        let typing = ends.input.stop()?;
        Ok(Self::spawn(session, ends, None, (typing, None), line))
    }

    fn spawn(
        session: Session,
        ends: Ends,
        screen: Option<(Escapes, Screen)>,
        (typing, raw): (Stop, Option<Raw>),
        line: Line,
    ) -> Self {
        let (requests, asked) = mpsc::unbounded_channel();
        let again = requests.clone();
        let pump = tokio::spawn(async move {
            // The connection lives as long as its shell.
            let Line {
                ssh: _line, beside, ..
            } = line;
            tokio::select! {
                exit = pump(session, ends, screen, again, asked) => exit,
                reason = beside.ended() => Exit::Lost(reason),
            }
        });
        Self {
            pump,
            requests,
            exit: None,
            typing: Some(typing),
            raw,
        }
    }

    /// Waits for the end; the terminal has been given back then. Loses nothing if it is dropped
    /// before it is ready, and may be called again.
    pub async fn ended(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        let exit = match (&mut self.pump).await {
            Ok(exit) => exit,
            Err(error) => Exit::Lost(error.to_string()),
        };
        self.raw = None;
        self.exit.insert(exit).clone()
    }

    /// Tells the host the terminal's size of now.
    pub fn resize(&self) {
        if self.raw.is_some() {
            // Without a pump there is nobody to tell.
            let _ended = self.requests.send(Request::Resize);
        }
    }

    /// Stops xdrive as Ctrl-Z does; returns when it is continued.
    pub fn suspend(&self) -> io::Result<()> {
        terminal::suspend()?;
        self.resize();
        Ok(())
    }

    /// After a SIGCONT: raw mode anew, and the size, which may have changed meanwhile.
    pub fn resume(&self) -> io::Result<()> {
        terminal::resume()?;
        self.resize();
        Ok(())
    }

    /// Asks the host to send `signal` to the command (the whole process group that sshd started).
    ///
    /// OpenSSH does so from 7.9 on, for users other than root; nothing tells whether it did. What
    /// runs in a container does not get it: `docker exec` passes no signals on, so that the caller
    /// must kill there, over another connection.
    pub fn kill(&self, signal: rustix::process::Signal) {
        use rustix::process::Signal;
        let signal = match signal {
            Signal::INT => Sig::INT,
            Signal::TERM => Sig::TERM,
            Signal::HUP => Sig::HUP,
            Signal::QUIT => Sig::QUIT,
            Signal::USR1 => Sig::USR1,
            Signal::USR2 => Sig::Custom("USR2".to_owned()),
            _ => Sig::KILL,
        };
        let _ended = self.requests.send(Request::Signal(signal));
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Reading ends first, so that nothing typed from here on is eaten; then the modes.
        self.typing = None;
        self.pump.abort();
        self.raw = None;
    }
}

/// Opens a session and waits until the host has started `command`.
async fn start(
    ssh: &Ssh,
    command: &str,
    terminal: Option<&TerminalRequest>,
) -> Result<Session, SshError> {
    let starting = async {
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
                    Some(ChannelMsg::Close) | None => return Err(ssh.lost().await),
                    // Window adjustments; no data comes before the answer.
                    Some(_) => {}
                }
            }
        }
        Ok(session)
    };
    let late = |_| SshError::Lost(ssh.address(), "no answer for 15 seconds".to_owned());
    tokio::time::timeout(START, starting).await.map_err(late)?
}

/// The local ends.
struct Ends {
    input: Source,
    /// Bytes of input that may wait for the host.
    ahead: usize,
    output: Sink,
    errors: Sink,
}

impl Ends {
    fn open(line: &Line, ahead: usize) -> io::Result<Self> {
        let own =
            |stream: &dyn AsFd| -> io::Result<OwnedFd> { stream.as_fd().try_clone_to_owned() };
        Ok(Self {
            input: Source::open(own(&io::stdin())?)?,
            ahead,
            output: Sink::open(own(&io::stdout())?, Arc::clone(&line.gate))?,
            errors: Sink::open(own(&io::stderr())?, Arc::clone(&line.gate))?,
        })
    }
}

/// Input on its way to the host.
#[derive(Default)]
struct Backlog {
    bytes: AtomicUsize,
    shrunk: Notify,
}

/// Carries everything between the local ends and the host, until one of them ends.
async fn pump(
    session: Session,
    mut ends: Ends,
    mut screen: Option<(Escapes, Screen)>,
    requests: mpsc::UnboundedSender<Request>,
    mut asked: mpsc::UnboundedReceiver<Request>,
) -> Exit {
    let Session {
        mut messages,
        sender,
    } = session;
    let (queue, mut queued) = mpsc::unbounded_channel();
    let mut queue = Some(queue);
    let backlog = Backlog::default();
    let mut exit = None;

    let sending = send(&sender, &mut queued, &backlog);
    let asking = ask(&sender, &mut asked);
    tokio::pin!(sending, asking);
    let (mut all_sent, mut none_asks) = (false, false);
    let exit = loop {
        let room = backlog.bytes.load(Ordering::Relaxed) < ends.ahead;
        tokio::select! {
            () = &mut sending, if !all_sent => all_sent = true,
            () = &mut asking, if !none_asks => none_asks = true,
            () = backlog.shrunk.notified(), if !room => {}
            chunk = ends.input.next(), if room && queue.is_some() => {
                let Some(chunk) = chunk else {
                    // A terminal in raw mode has no end of input but its own.
                    if screen.is_some() {
                        break Exit::Escaped;
                    }
                    // Sent after the last of the input.
                    queue = None;
                    continue;
                };
                let typed = match &mut screen {
                    Some((escapes, _)) => escapes.read(&chunk),
                    None => vec![Typed::Send(chunk)],
                };
                let mut escaped = false;
                for typed in typed {
                    match typed {
                        Typed::Send(bytes) => {
                            backlog.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
                            if let Some(queue) = &queue {
                                let _lost = queue.send(bytes);
                            }
                        }
                        Typed::End => escaped = true,
                        Typed::Help => ends.output.push(Bytes::from_static(HELP.as_bytes())),
                        Typed::Suspend => {
                            ends.output.push(Bytes::from_static(b"~^Z [suspended]\r\n"));
                            last_output(&ends.output).await;
                            // Where nothing can stop us (an orphan), the session goes on.
                            let _not_stopped = terminal::suspend();
                            let _ended = requests.send(Request::Resize);
                        }
                    }
                }
                if escaped {
                    ends.output.push(Bytes::from_static(b"~.\r\n"));
                    break Exit::Escaped;
                }
            }
            // A pipe whose reader is gone ends the command, as it would without a host between.
            () = ends.output.failed(), if screen.is_none() => break Exit::Signal { number: 13 },
            message = messages.wait() => match message {
                Some(ChannelMsg::Data { data }) => {
                    if let Some((_, screen)) = &mut screen {
                        screen.watch(&data);
                    }
                    ends.output.push(data);
                }
                Some(ChannelMsg::ExtendedData { data, .. }) => ends.errors.push(data),
                Some(ChannelMsg::ExitStatus { exit_status }) => {
                    exit = Some(Exit::Status(exit_status));
                }
                Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                    exit = Some(Exit::Signal { number: signal_number(&signal_name) });
                }
                Some(ChannelMsg::Close) | None => break match exit {
                    Some(exit) => exit,
                    None => Exit::Lost(sender.ended().await),
                },
                Some(_) => {}
            },
        }
    };
    // Typing from here on is for whoever reads the terminal next.
    drop(ends.input);
    if screen.is_some() {
        last_output(&ends.output).await;
    } else {
        ends.output.drained().await;
        ends.errors.drained().await;
    }
    exit
}

async fn send(sender: &Sender, queued: &mut mpsc::UnboundedReceiver<Bytes>, backlog: &Backlog) {
    while let Some(bytes) = queued.recv().await {
        let length = bytes.len();
        if !sender.send(bytes).await {
            return;
        }
        backlog.bytes.fetch_sub(length, Ordering::Relaxed);
        backlog.shrunk.notify_one();
    }
    sender.eof().await;
}

/// Not in one queue with the data, which may wait for window.
async fn ask(sender: &Sender, asked: &mut mpsc::UnboundedReceiver<Request>) {
    while let Some(request) = asked.recv().await {
        let alive = match request {
            Request::Resize => sender.resize(terminal::size()).await,
            Request::Signal(signal) => sender.signal(signal).await,
        };
        if !alive {
            return;
        }
    }
}

/// What a terminal shows last; one that takes nothing is not waited for.
async fn last_output(output: &Sink) {
    let _stuck = tokio::time::timeout(LAST_OUTPUT, output.drained()).await;
}
