//! Proxy commands, as OpenSSH's `ProxyCommand` (`ssh_config(5)`): a command's input and output are
//! the connection to a host.
//!
//! The command is run by `sh -c`, in a process group of its own, so that a Ctrl-C at the terminal
//! does not end the connection. With the connection the whole process group ends: hung up first,
//! killed a moment later. The end of its standard error is kept for the error message.

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

/// How much of the end of a command's standard error is kept, in bytes.
const KEPT: usize = 2048;

/// How long a command may take to end when it is hung up, before it is killed.
const HANGUP: Duration = Duration::from_millis(100);
/// The pause between two checks whether a command has ended.
const LOOK: Duration = Duration::from_millis(2);

/// The longest wait for the end of a command, and of its standard error.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A command with `%h`, `%p`, `%i` and `%%` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyCommand(String);

/// A proxy command that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxyCommand {
    /// There is nothing to run.
    #[error("the command is empty")]
    Empty,
    /// The command has an unknown `%` sequence.
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
    /// The command for a host. An address, a number and an id are put in: nothing that a shell
    /// would expand.
    fn fill_in(&self, to: SocketAddr, instance: &str) -> String {
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

/// Why a command did not connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct ProxyFailure {
    /// How it ended, if it has, and its standard error.
    pub words: String,
    /// Whether the command still runs, and how it ended if not.
    pub end: ProxyEnd,
}

/// The state of a command that did not connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyEnd {
    /// The command still runs, and connects nothing.
    GoesOn,
    /// The command ended by itself.
    Ended,
    /// There is no such command, or it cannot be run: a shell's exit status is 127 or 126 then
    /// (POSIX, *Shell Command Language*, 2.8.2).
    Missing,
}

/// A proxy command, and the host it is to lead to.
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
            .arg(self.command.fill_in(to, &self.instance))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let group = Pid::from_child(&child);
        let process = Process {
            group,
            child,
            stderr: Arc::default(),
        };
        let errors = ChildStderr::from_std(errors)?;
        tokio::spawn(keep_end(errors, Arc::clone(&process.stderr)));
        let through = Through {
            input: ChildStdin::from_std(input)?,
            output: ChildStdout::from_std(output)?,
        };
        Ok((through, process))
    }
}

/// The end of a command's standard error.
#[derive(Default)]
struct Stderr {
    bytes: Vec<u8>,
    is_closed: bool,
}

/// With its length.
impl std::fmt::Debug for Stderr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stderr({} bytes)", self.bytes.len())
    }
}

/// Reads all of `errors` and keeps its end. A pipe that is not read would stop the command.
async fn keep_end(mut errors: ChildStderr, kept: Arc<Mutex<Stderr>>) {
    let mut chunk = [0; KEPT];
    loop {
        let read = errors.read(&mut chunk).await;
        let mut kept = lock(&kept);
        let Ok(length @ 1..) = read else {
            kept.is_closed = true;
            return;
        };
        kept.bytes.extend_from_slice(&chunk[..length]);
        let superfluous = kept.bytes.len().saturating_sub(KEPT);
        kept.bytes.drain(..superfluous);
    }
}

/// A command's process group. Dropped, it is ended; that blocks for a tenth of a second if it does
/// not end when it is hung up.
#[derive(Debug)]
pub(super) struct Process {
    group: Pid,
    /// Not reaped before the drop: until then no other group can have its number.
    child: Child,
    stderr: Arc<Mutex<Stderr>>,
}

impl Process {
    /// How the command ended, if it has. Does not reap it.
    fn end(&self) -> Option<WaitIdStatus> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.group), how).ok().flatten()
    }

    /// Why the command did not connect: how it ended, if it has, and the end of its standard error.
    pub(super) async fn failure(&self, why: &str) -> ProxyFailure {
        // It ends a moment after its output does, and its last words may still be in the pipe. (A
        // process that it started may hold that open.)
        let over = async {
            while !lock(&self.stderr).is_closed || self.end().is_none() {
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
        let stderr = String::from_utf8_lossy(&lock(&self.stderr).bytes).into_owned();
        if !stderr.trim().is_empty() {
            words.push_str(": ");
            words.push_str(stderr.trim());
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
        // Fails only if it has ended by itself.
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

    fn filled_in(text: &str) -> String {
        let command: ProxyCommand = text.parse().unwrap();
        command.fill_in("10.0.0.7:22".parse().unwrap(), "i-0abc")
    }

    #[test]
    fn address_port_and_id_are_put_in_and_nothing_else_is_touched() {
        assert_eq!(filled_in("nc %h %p"), "nc 10.0.0.7 22");
        assert_eq!(
            filled_in("aws ssm start-session --target %i --parameters portNumber=%p"),
            "aws ssm start-session --target i-0abc --parameters portNumber=22"
        );
        assert_eq!(
            filled_in("date +%%s; echo 'ä' \"$HOME\""),
            "date +%s; echo 'ä' \"$HOME\""
        );
        assert_eq!(filled_in("%%%h%%h"), "%10.0.0.7%h");
        let command: ProxyCommand = "nc %h %p".parse().unwrap();
        let six = "[2001:db8::7]:22".parse().unwrap();
        assert_eq!(command.fill_in(six, "i-0abc"), "nc 2001:db8::7 22");
    }

    #[test]
    fn an_invalid_proxy_command_is_refused_when_it_is_parsed() {
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
