//! A command on the host, attached to the local terminal or to pipes.
//!
//! Two forms: in a terminal ([`Shell::terminal`]: raw mode, resizing, escapes), and between pipes
//! ([`Shell::piped`]: standard input, output and error are the command's own, byte for byte).
//! The session waits for [`Shell::ended`] beside everything else that may end it, and passes
//! signals on; dropping the shell gives the terminal back and hangs up.
//!
//! The local terminal is attached to one on the host that outlives the connection: after
//! [`ShellExit::Lost`] it stays in raw mode and reads escapes ([`Shell::escaped`]), until it is
//! attached again over another connection ([`Shell::attach`]) or dropped.
//!
//! It never decides what an ending means, never connects, and prints only the echo of an escape and
//! notices.

mod exit;
mod pump;

use std::io;
use std::sync::Arc;

use russh::Sig;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::channel::Session;
use super::connection::Ssh;
use super::dedicated::DedicatedConnection;
use super::escape::Answers;
use super::gate::Gate;
use super::start;
use super::streams::Stop;
use super::terminal::{Attached, Terminal};
use crate::terminal::{self, Raw};

pub use super::start::ShellError;
pub use exit::ShellExit;
pub use pump::Message;
use pump::{Local, Request};

/// A running command with local ends.
pub struct Shell {
    pump: Option<Pump>,
    requests: mpsc::UnboundedSender<Request>,
    /// How it ended; after [`ShellExit::Lost`] only the connection did.
    exit: Option<ShellExit>,
    /// The local ends while they are attached to nothing.
    local: Option<Local>,
    terminal: Option<(Terminal, Arc<Gate>)>,
    typing: Option<Stop>,
    raw: Option<Raw>,
}

/// The task that carries one connection's bytes. It gives the local ends back if another connection
/// may follow.
type Pump = JoinHandle<(ShellExit, Option<Local>)>;

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
        let mut local = Local::open(&connection.gate, Some(answers))?;
        let typing = local.stop()?;
        let raw = Raw::enter()?;
        // Of one that was left, first its last output, and then its whole screen drawn anew.
        if let Attached::Same(from) = attached {
            local.follow(from);
        }
        local.show(rest);
        let mut shell = Self::begin(Some(typing));
        shell.raw = Some(raw);
        shell.terminal = Some((terminal, Arc::clone(&connection.gate)));
        shell.carry(session, local, connection);
        if attached != Attached::New {
            shell.request(Request::Redraw);
        }
        Ok(shell)
    }

    /// Runs `command` on the host between the local standard streams.
    pub async fn piped(connection: DedicatedConnection, command: &str) -> Result<Self, ShellError> {
        let session = start::piped(&connection.ssh, command).await?;
        let local = Local::open(&connection.gate, None)?;
        let mut shell = Self::begin(Some(local.stop()?));
        shell.carry(session, local, connection);
        Ok(shell)
    }

    fn begin(typing: Option<Stop>) -> Self {
        let (requests, _) = mpsc::unbounded_channel();
        Self {
            pump: None,
            requests,
            exit: None,
            local: None,
            terminal: None,
            typing,
            raw: None,
        }
    }

    fn carry(&mut self, session: Session, mut local: Local, connection: DedicatedConnection) {
        let (requests, mut asked) = mpsc::unbounded_channel();
        self.requests = requests.clone();
        self.exit = None;
        self.pump = Some(tokio::spawn(async move {
            // The connection lives as long as its shell.
            let DedicatedConnection {
                ssh: _ssh, beside, ..
            } = connection;
            let exit = tokio::select! {
                exit = local.carry(session, &mut asked, &requests) => exit,
                reason = beside.ended() => ShellExit::Lost(reason),
            };
            if local.terminal.is_some() && matches!(exit, ShellExit::Lost(_)) {
                local.begin_line();
                return (exit, Some(local));
            }
            local.end().await;
            (exit, None)
        }));
    }

    /// Waits for the end; unless the connection was lost, the terminal has been given back then.
    /// Loses nothing if it is dropped before it is ready, and may be called again.
    pub async fn ended(&mut self) -> ShellExit {
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
    /// everything else that is typed. Loses nothing if it is dropped before it is ready.
    pub async fn escaped(&mut self) -> ShellExit {
        match &mut self.local {
            Some(local) => local.escape().await,
            None => self.ended().await,
        }
    }

    /// After [`ShellExit::Lost`]: shows `lines` without spoiling the screen, in place of those of
    /// the last call.
    pub fn notice(&mut self, lines: &[String]) {
        if let Some(local) = &mut self.local {
            local.notice(lines);
        }
    }

    /// Prints a message of xdrive's own at the terminal without spoiling the screen: a title at
    /// once, a line as soon as no full-screen program has the screen.
    pub fn print(&mut self, message: Message) {
        match &mut self.local {
            Some(local) => local.print(message),
            None => self.request(Request::Print(message)),
        }
    }

    /// After [`ShellExit::Lost`]: attaches to the same terminal again, over a new connection beside
    /// `ssh`. The notice is removed, and the screen goes on exactly where it was.
    ///
    /// The local ends stay as they are after an error, for another try.
    pub async fn attach(&mut self, ssh: &Ssh) -> Result<Attached, ShellError> {
        let Some((local, (terminal, gate))) = self.local.as_ref().zip(self.terminal.as_ref())
        else {
            return Ok(Attached::Gone);
        };
        let seen = local.terminal.as_ref().map_or(0, |terminal| terminal.seen);
        let connection = DedicatedConnection::with_gate(ssh, Arc::clone(gate)).await?;
        let (session, attached, rest) =
            start::attached(&connection.ssh, &terminal.attach(seen)).await?;
        let Some(mut local) = self.local.take_if(|_| attached != Attached::Gone) else {
            return Ok(attached);
        };
        let redraw = local.end_of_notice();
        if let Attached::Same(from) = attached {
            local.follow(from);
        }
        local.show(rest);
        self.carry(session, local, connection);
        if redraw {
            self.request(Request::Redraw);
        }
        Ok(attached)
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

    /// Asks the host to send `signal` to the command (the whole process group that sshd started).
    ///
    /// OpenSSH does so from 7.9 on, for users other than root; nothing shows whether it did. A
    /// process in a container does not get the signal: `docker exec` passes none on, so that the
    /// caller must kill there, over another connection.
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
        self.request(Request::Signal(signal));
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
