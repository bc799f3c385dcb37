//! A command on the host, attached to the local terminal or to pipes.
//!
//! Two forms: in a terminal ([`Shell::terminal`]: raw mode, resizing, escapes), and between pipes
//! ([`Shell::piped`]: standard input, output and error are the command's own, byte for byte).
//! The session waits for [`Shell::ended`] beside everything else that may end it; dropping the
//! shell gives the terminal back and hangs up.
//!
//! Either is attached to something on the host that outlives the connection: after
//! [`ShellExit::Lost`] the local ends stay as they are, until they are attached again over another
//! connection ([`Shell::attach`]) or dropped. A terminal stays in raw mode and reads escapes
//! ([`Shell::escaped`]).
//!
//! It never decides what an ending means, never connects, and prints only the echo of an escape and
//! notices.

mod exit;
mod pipes;
mod pump;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::channel::Session;
use super::command::{Answer, RemoteCommand};
use super::connection::Ssh;
use super::dedicated::DedicatedConnection;
use super::escape::Answers;
use super::gate::Gate;
use super::start;
use super::streams::Stop;
use super::terminal::{Attached, Terminal};
use xdrive_ground::terminal::{self, Raw};

pub use super::start::ShellError;
pub use exit::ShellExit;
use pipes::Pipes;
pub use pipes::Progress;
pub use pump::Message;
use pump::{Local, Request};

/// A running command with local ends.
pub struct Shell {
    pump: Option<Pump>,
    requests: mpsc::UnboundedSender<Request>,
    /// How it ended; after [`ShellExit::Lost`] only the connection did.
    exit: Option<ShellExit>,
    /// The local ends while they are attached to nothing.
    local: Option<Ends>,
    remote: Remote,
    gate: Arc<Gate>,
    typing: Option<Stop>,
    raw: Option<Raw>,
}

/// The end on the host that the shell is attached to.
#[derive(Clone)]
enum Remote {
    Terminal(Terminal),
    Command(RemoteCommand),
}

/// The local ends.
enum Ends {
    Terminal(Box<Local>),
    Pipes(Box<Pipes>),
}

/// The result of [`Shell::attach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Attached again. So many bytes of output, and of errors, are lost: the host did not keep
    /// them.
    Attached([u64; 2]),
    /// The terminal or command on the host has ended.
    Gone,
}

/// The task that carries one connection's bytes. It gives the local ends back if another connection
/// may follow.
type Pump = JoinHandle<(ShellExit, Option<Ends>)>;

impl Shell {
    /// Attaches the local terminal, which is in raw mode from here on, to the one on the host: a
    /// new one, or one that was left there.
    pub async fn terminal(
        mut connection: DedicatedConnection,
        terminal: Terminal,
        answers: Answers,
    ) -> Result<Self, ShellError> {
        let begun = connection.begun.take();
        let (session, attached, rest) =
            start::begun_or_attached(&connection.ssh, &terminal, begun).await?;
        let mut local = Local::open(&connection.gate, answers)?;
        let typing = local.stop()?;
        let raw = Raw::enter()?;
        // Of one that was left, first its last output, and then its whole screen drawn anew.
        if let Attached::Same(from) = attached {
            local.follow(from);
        }
        let mut shell = Self::begin(Remote::Terminal(terminal), &connection, typing);
        shell.raw = Some(raw);
        shell.carry(session, rest, Ends::Terminal(Box::new(local)), connection);
        if attached != Attached::New {
            shell.request(Request::Redraw);
        }
        Ok(shell)
    }

    /// Starts `command` on the host between the local standard streams, or attaches them to one
    /// that is there, from the first byte that is kept. If standard input is a terminal, escapes
    /// are read from it. `progress` has how far its streams have come.
    pub async fn piped(
        connection: DedicatedConnection,
        command: RemoteCommand,
        answers: Answers,
        progress: Progress,
    ) -> Result<Self, ShellError> {
        let (session, answer, rest) = start::piped(&connection.ssh, &command.start()).await?;
        if let Answer::Gone = answer {
            return Err(ShellError::NoKeeper("it has none of this name".to_owned()));
        }
        let mut pipes = Pipes::open(&connection.gate, answers, progress)?;
        if let Answer::Same {
            from,
            is_input_over,
        } = answer
        {
            pipes.follow(from, is_input_over);
        }
        let typing = pipes.stop()?;
        let mut shell = Self::begin(Remote::Command(command), &connection, typing);
        shell.carry(session, rest, Ends::Pipes(Box::new(pipes)), connection);
        Ok(shell)
    }

    fn begin(remote: Remote, connection: &DedicatedConnection, typing: Stop) -> Self {
        let (requests, _) = mpsc::unbounded_channel();
        Self {
            pump: None,
            requests,
            exit: None,
            local: None,
            remote,
            gate: Arc::clone(&connection.gate),
            typing: Some(typing),
            raw: None,
        }
    }

    /// Carries bytes over `connection` from here on; `rest` has arrived already.
    fn carry(
        &mut self,
        session: Session,
        rest: Bytes,
        mut local: Ends,
        connection: DedicatedConnection,
    ) {
        let (requests, mut asked) = mpsc::unbounded_channel();
        self.requests = requests.clone();
        self.exit = None;
        self.pump = Some(tokio::spawn(async move {
            // The connection lives as long as its shell.
            let DedicatedConnection { ssh, beside, .. } = connection;
            let exit = tokio::select! {
                exit = async {
                    match &mut local {
                        Ends::Terminal(local) => {
                            local.show(rest);
                            local.carry(session, &mut asked, &requests).await
                        }
                        Ends::Pipes(pipes) => pipes.carry(session, rest, &ssh).await,
                    }
                } => exit,
                reason = beside.wait_for_end() => ShellExit::Lost(reason),
            };
            let is_lost = matches!(exit, ShellExit::Lost(_));
            match local {
                Ends::Terminal(mut local) if is_lost => {
                    local.cut_off();
                    (exit, Some(Ends::Terminal(local)))
                }
                Ends::Pipes(_) if is_lost => (exit, Some(local)),
                Ends::Terminal(local) => {
                    local.end().await;
                    (exit, None)
                }
                Ends::Pipes(pipes) => {
                    pipes.end().await;
                    (exit, None)
                }
            }
        }));
    }

    /// Waits for the end; unless the connection was lost, the terminal has been given back then.
    /// Loses nothing if it is dropped before it is ready, and may be called again.
    pub async fn wait_for_exit(&mut self) -> ShellExit {
        if let Some(pump) = &mut self.pump {
            let (exit, local) = match pump.await {
                Ok(end) => end,
                Err(error) => (ShellExit::Lost(error.to_string()), None),
            };
            self.pump = None;
            if local.is_none() {
                self.raw = None;
            }
            self.local = local;
            self.exit = Some(exit);
        }
        self.exit.clone().unwrap_or(ShellExit::Escaped)
    }

    /// After [`ShellExit::Lost`]: waits for an escape that ends the session, and discards
    /// everything else that is typed at the terminal. Between pipes nothing is read, and nothing
    /// discarded. Loses nothing if it is dropped before it is ready.
    pub async fn escaped(&mut self) -> ShellExit {
        match &mut self.local {
            Some(Ends::Terminal(local)) => local.escape().await,
            Some(Ends::Pipes(_)) => std::future::pending().await,
            None => self.wait_for_exit().await,
        }
    }

    /// Whether it runs between pipes.
    #[must_use]
    pub fn is_piped(&self) -> bool {
        matches!(self.remote, Remote::Command(_))
    }

    /// After [`ShellExit::Lost`]: shows `lines` without spoiling the screen, in place of those of
    /// the last call. Between pipes there is no screen, and this does nothing.
    pub fn notice(&mut self, lines: &[String]) {
        if let Some(Ends::Terminal(local)) = &mut self.local {
            local.notice(lines);
        }
    }

    /// Prints a message of xdrive's own at the terminal without spoiling the screen: a title at
    /// once, a line as soon as no full-screen program has the screen.
    pub fn print(&mut self, message: Message) {
        match &mut self.local {
            Some(Ends::Terminal(local)) => local.print(message),
            Some(Ends::Pipes(_)) => {}
            None => self.request(Request::Print(message)),
        }
    }

    /// After [`ShellExit::Lost`]: attaches to the same terminal or command again, over a new
    /// connection beside `ssh`. It goes on exactly where it was; a notice is removed.
    ///
    /// The local ends stay as they are after an error, for another try.
    pub async fn attach(&mut self, ssh: &Ssh) -> Result<Again, ShellError> {
        let connection = DedicatedConnection::with_gate(ssh, Arc::clone(&self.gate)).await?;
        match (&mut self.local, &self.remote) {
            (Some(Ends::Terminal(local)), Remote::Terminal(terminal)) => {
                let command = terminal.attach(local.seen);
                let (session, attached, rest) = start::attached(&connection.ssh, &command).await?;
                if attached == Attached::Gone {
                    return Ok(Again::Gone);
                }
                let redraw = local.end_of_notice();
                let lost = match attached {
                    Attached::Same(from) => local.follow(from),
                    _ => 0,
                };
                self.carry_on(session, rest, connection);
                if redraw {
                    self.request(Request::Redraw);
                }
                Ok(Again::Attached([lost, 0]))
            }
            (Some(Ends::Pipes(pipes)), Remote::Command(command)) => {
                let command = command.attach(pipes.seen);
                let (session, answer, rest) = start::piped(&connection.ssh, &command).await?;
                let lost = match answer {
                    Answer::Gone => return Ok(Again::Gone),
                    Answer::New => [0, 0],
                    Answer::Same {
                        from,
                        is_input_over,
                    } => pipes.follow(from, is_input_over),
                };
                self.carry_on(session, rest, connection);
                Ok(Again::Attached(lost))
            }
            _ => Ok(Again::Gone),
        }
    }

    fn carry_on(&mut self, session: Session, rest: Bytes, connection: DedicatedConnection) {
        if let Some(local) = self.local.take() {
            self.carry(session, rest, local, connection);
        }
    }

    /// Sends the terminal's size to the host.
    pub fn resize(&self) {
        if self.raw.is_some() {
            self.request(Request::Resize);
        }
    }

    fn request(&self, request: Request) {
        // Fails only without a pump.
        let _ended = self.requests.send(request);
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
}

impl Shell {
    /// Gives the terminal back and hangs up, as dropping does.
    pub fn close(&mut self) {
        // Reading ends first: what is typed from here on is for the next program. Then the modes.
        self.typing = None;
        if let Some(pump) = &self.pump {
            pump.abort();
        }
        self.local = None;
        self.raw = None;
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.close();
    }
}
