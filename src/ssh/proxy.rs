//! Reaching a host through a command, as OpenSSH's `ProxyCommand` does (`ssh_config(5)`): its input
//! and output are the connection.
//!
//! The command is run by `sh -c`, in a process group of its own, so that a Ctrl-C at the terminal
//! ends what runs there and not the way to it. It ends with the connection, and all that it started
//! with it: hung up first, killed a moment later. What it says on standard error is kept, for whoever
//! has to be told why it did not come through.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// How much of what a command says on standard error is kept, in bytes: the end of it.
const SAID: usize = 2048;

/// How long a command may take to end when it is hung up, before it is killed.
const HANGUP: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(2);

/// How long the last words of a command that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A command with `%h`, `%p`, `%i` and `%%` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyCommand(String);

/// What is no such command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxyCommand {
    /// There is nothing to run.
    #[error("the command is empty")]
    Empty,
    /// Nobody knows what to put there.
    #[error("{0} stands for nothing: there are %h, %p, %i and %%")]
    Unknown(String),
}

impl FromStr for ProxyCommand {
    type Err = InvalidProxyCommand;

    fn from_str(given: &str) -> Result<Self, InvalidProxyCommand> {
        if given.trim().is_empty() {
            return Err(InvalidProxyCommand::Empty);
        }
        let mut rest = given.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                continue;
            }
            match rest.next() {
                Some('h' | 'p' | 'i' | '%') => {}
                other => {
                    let unknown: String = ['%'].into_iter().chain(other).collect();
                    return Err(InvalidProxyCommand::Unknown(unknown));
                }
            }
        }
        Ok(Self(given.to_owned()))
    }
}

impl<'de> Deserialize<'de> for ProxyCommand {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl ProxyCommand {
    /// The command for a host. What is put in is an address, a number and an id: nothing that a
    /// shell would take for more.
    fn of(&self, to: SocketAddr, instance: &str) -> String {
        let mut command = String::with_capacity(self.0.len());
        let mut rest = self.0.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                command.push(character);
                continue;
            }
            match rest.next() {
                Some('h') => command.push_str(&to.ip().to_string()),
                Some('p') => command.push_str(&to.port().to_string()),
                Some('i') => command.push_str(instance),
                other => command.extend(other),
            }
        }
        command
    }
}

/// Why a command did not come through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct ProxyFailure {
    /// How it ended, if it has, and what it said.
    pub words: String,
    /// What became of it.
    pub end: ProxyEnd,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyEnd {
    /// It goes on, and leads nowhere.
    GoesOn,
    /// It ended by itself.
    Ended,
    /// There is no such command, or it cannot be run: a shell says so by 127 and 126 (POSIX,
    /// *Shell Command Language*, 2.8.2).
    Missing,
}

/// The way to a host through a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The command.
    pub command: ProxyCommand,
    /// The host's instance id, for `%i`.
    pub instance: String,
}

impl Proxy {
    /// Starts the command. It runs until its process is dropped.
    pub(super) fn start(&self, to: SocketAddr) -> io::Result<(Through, Process)> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(self.command.of(to, &self.instance))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let taken = || io::Error::other("a pipe is missing");
        let input = child.stdin.take().ok_or_else(taken)?;
        let output = child.stdout.take().ok_or_else(taken)?;
        let errors = child.stderr.take().ok_or_else(taken)?;
        let group = Pid::from_child(&child);
        let process = Process {
            group,
            child,
            said: Arc::default(),
        };
        let errors = ChildStderr::from_std(errors)?;
        tokio::spawn(listen(errors, Arc::clone(&process.said)));
        let through = Through {
            input: ChildStdin::from_std(input)?,
            output: ChildStdout::from_std(output)?,
        };
        Ok((through, process))
    }
}

/// What a command says, as far as it is kept, and whether that is all.
#[derive(Debug, Default)]
struct Said {
    words: Vec<u8>,
    is_over: bool,
}

/// Keeps the end of what is said. A pipe that nobody reads would stop the command.
async fn listen(mut errors: ChildStderr, said: Arc<Mutex<Said>>) {
    let mut chunk = [0; SAID];
    loop {
        let read = errors.read(&mut chunk).await;
        let mut said = lock(&said);
        let Ok(length @ 1..) = read else {
            said.is_over = true;
            return;
        };
        said.words.extend_from_slice(&chunk[..length]);
        let superfluous = said.words.len().saturating_sub(SAID);
        said.words.drain(..superfluous);
    }
}

/// A command that runs, or has ended. Dropped, it ends, and with it all that it started; that
/// blocks for a tenth of a second if it does not end when it is hung up.
#[derive(Debug)]
pub(super) struct Process {
    group: Pid,
    /// Not reaped before the end: as long, nobody else's group can have its number.
    child: Child,
    said: Arc<Mutex<Said>>,
}

impl Process {
    /// How the command ended, if it has. It is not reaped by that.
    fn end(&self) -> Option<WaitIdStatus> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.group), how).ok().flatten()
    }

    /// Why the command did not come through: how it ended, if it has, and what it said.
    pub(super) async fn failure(&self, why: &str) -> ProxyFailure {
        // Its end is seen a moment after that of its output, and what it said may still be in the
        // pipe. (Something that it started may hold that open.)
        let over = async {
            while !lock(&self.said).is_over || self.end().is_none() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, over).await;
        let end = self.end();
        let status = end.and_then(|end| end.exit_status());
        let signal = end.and_then(|end| end.terminating_signal());
        let mut words = match (end, status, signal) {
            (None, ..) => format!("the proxy command does not come through: {why}"),
            (_, Some(code), _) => format!("the proxy command ended with exit status {code}"),
            (_, None, Some(signal)) => format!("the proxy command ended with signal {signal}"),
            (_, None, None) => "the proxy command ended with an unknown status".to_owned(),
        };
        let said = String::from_utf8_lossy(&lock(&self.said).words).into_owned();
        if !said.trim().is_empty() {
            words.push_str(": ");
            words.push_str(said.trim());
        }
        let end = match (end, status) {
            (None, _) => ProxyEnd::GoesOn,
            (Some(_), Some(126 | 127)) => ProxyEnd::Missing,
            (Some(_), _) => ProxyEnd::Ended,
        };
        ProxyFailure { words, end }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself: no error is of interest, only that nobody is left.
        let _ = kill_process_group(self.group, Signal::HUP);
        let mut looks = HANGUP.as_millis() / LOOK.as_millis();
        while looks > 0 && self.end().is_none() {
            std::thread::sleep(LOOK);
            looks -= 1;
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A command's output and input, as a connection.
#[derive(Debug)]
pub(super) struct Through {
    input: ChildStdin,
    output: ChildStdout,
}

impl AsyncRead for Through {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, buffer)
    }
}

impl AsyncWrite for Through {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let command: ProxyCommand = text.parse().unwrap();
        command.of("10.0.0.7:22".parse().unwrap(), "i-0abc")
    }

    #[test]
    fn address_port_and_id_are_put_in_and_nothing_else_is_touched() {
        assert_eq!(of("nc %h %p"), "nc 10.0.0.7 22");
        assert_eq!(
            of("aws ssm start-session --target %i --parameters portNumber=%p"),
            "aws ssm start-session --target i-0abc --parameters portNumber=22"
        );
        assert_eq!(
            of("date +%%s; echo 'ä' \"$HOME\""),
            "date +%s; echo 'ä' \"$HOME\""
        );
        assert_eq!(of("%%%h%%h"), "%10.0.0.7%h");
        let command: ProxyCommand = "nc %h %p".parse().unwrap();
        let six = "[2001:db8::7]:22".parse().unwrap();
        assert_eq!(command.of(six, "i-0abc"), "nc 2001:db8::7 22");
    }

    #[test]
    fn what_cannot_be_run_is_refused_before_anything_is_begun() {
        let refused = |text: &str| text.parse::<ProxyCommand>().unwrap_err().to_string();
        assert_eq!(refused(" "), "the command is empty");
        for (text, unknown) in [("nc %r", "%r"), ("nc %", "%"), ("nc %h %ä", "%ä")] {
            let why = refused(text);
            assert!(
                why.starts_with(&format!("{unknown} stands for nothing")),
                "{why}"
            );
        }
    }
}
