//! An SSH connection to a host whose key is known beforehand.
//!
//! Owns connecting, the login, and commands that run to their end ([`Ssh::run`], [`Ssh::feed`]).
//! It never prompts, never learns a host key, never connects twice: to wait for a host that boots,
//! poll [`Ssh::connect`].
//!
//! A channel that is not drained stops the whole connection, keepalives included: every reader
//! here drains.

mod shared;
mod tcp;
mod within;

use std::future::Future as _;
use std::io::Cursor;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use russh::client::{self, Handle, Msg};
use russh::keys::agent::AgentSessionBinding;
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg};
use russh::{Channel, ChannelMsg};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

pub use shared::Target;
use shared::{Expected, Shared};

use super::channel::{CHUNK, Session, TerminalRequest, demand_room, signal_number};
use super::error::SshError;
use super::gate::{Gate, GatedStream};
use super::key::PublicHostKey;
use super::peer::{Accepts, End, Peer, Reading, config, handshake_error};
use super::proxy::Process;
use super::unread::{Carrier, Unread};

/// How long TCP alone may take: a round trip. A host that is still booting drops a SYN without an
/// answer; the caller connects again.
pub const REACH: Duration = Duration::from_secs(3);
/// How long key exchange and authentication may take: five round trips, 1.5 s at 300 ms; the rest
/// is for a host that boots. sshd itself gives up after 120 s (`LoginGraceTime`).
const LOGIN: Duration = Duration::from_secs(20);

/// The output of a command that has ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 + n if signal n ended it.
    pub status: u32,
    /// Standard output, whole.
    pub stdout: Vec<u8>,
    /// Standard error, whole.
    pub stderr: Vec<u8>,
}

/// With the lengths of what was printed.
impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("status", &self.status)
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .finish_non_exhaustive()
    }
}

/// An authenticated connection. Cheap to clone; it ends when the last clone is dropped.
#[derive(Clone)]
pub struct Ssh {
    connection: Arc<Connection>,
}

struct Connection {
    handle: Handle<Peer>,
    target: Target,
    shared: Shared,
    end: End,
    /// The proxy command, if there is one; it ends with the connection.
    proxy: OnceLock<Process>,
}

impl std::fmt::Debug for Ssh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ssh").field(&self.connection.target).finish()
    }
}

impl Ssh {
    /// Connects once and authenticates with `key` (OpenSSH private key text).
    ///
    /// Returns within 23 s, and within 3 where nothing answers. [`SshError::Unreachable`] and
    /// [`SshError::Denied`] may pass while a host boots; [`SshError::WrongHostKey`] does not, once
    /// user data has run.
    pub async fn connect(target: &Target, key: &str) -> Result<Self, SshError> {
        Self::gated(target, key, None).await
    }

    /// As [`Ssh::connect`]; it reads nothing while `gate` is shut.
    pub async fn gated(
        target: &Target,
        key: &str,
        gate: Option<Arc<Gate>>,
    ) -> Result<Self, SshError> {
        let key = PrivateKey::from_openssh(key).map_err(|_| SshError::BadKey("the user's key"))?;
        let shared = Shared {
            key: Arc::new(key),
            host_key: Expected::from_target(target)?,
            unread: Unread::default(),
        };
        let reading = gate.map_or(Reading::Steady, Reading::Shell);
        Self::open(target, shared, reading, None).await
    }

    /// The host key that connections beside this one expect: the one that verified the host, or its own
    /// since it has made that.
    #[must_use]
    pub fn host_key(&self) -> PublicHostKey {
        self.connection.shared.host_key.now()
    }

    /// Has connections beside this one expect the host's own key.
    pub fn expect(&self, own: PublicHostKey) {
        self.connection.shared.host_key.set(own);
    }

    /// Opens a second connection to the same host: what stalls one does not stall the other.
    pub async fn sibling(&self) -> Result<Self, SshError> {
        self.connect_again(Reading::Steady, None).await
    }

    /// As [`Ssh::sibling`], to carry forwarded connections; the channels that the host opens are passed
    /// to `accepts`.
    pub(super) async fn carrier(
        &self,
        accepts: Option<Accepts>,
    ) -> Result<(Self, Arc<Carrier>), SshError> {
        let carrier = Arc::new(Carrier::new(&self.connection.shared.unread));
        let reading = Reading::Carrier(carrier.gate());
        let ssh = self.connect_again(reading, accepts).await?;
        Ok((ssh, carrier))
    }

    pub(super) async fn gated_sibling(&self, gate: Arc<Gate>) -> Result<Self, SshError> {
        self.connect_again(Reading::Shell(gate), None).await
    }

    async fn open(
        target: &Target,
        shared: Shared,
        reading: Reading,
        accepts: Option<Accepts>,
    ) -> Result<Self, SshError> {
        let address = target.address;
        let host_key = shared.host_key.now();
        let timed_out = |_| SshError::Unreachable(address, std::io::ErrorKind::TimedOut.into());
        let unreachable = |error| SshError::Unreachable(address, error);

        let config = Arc::new(config(host_key.key().algorithm(), &reading));
        let gate = reading.gate();
        if let Some(proxy) = &target.proxy {
            let (through, process) = proxy.start(address).map_err(unreachable)?;
            let stream = GatedStream::new(through, gate).counted(target.received.clone());
            let login = Self::login(target, shared, config, stream, host_key, accepts);
            let answer = tokio::time::timeout(LOGIN, login).await;
            return match answer.unwrap_or_else(|late| Err(timed_out(late))) {
                Ok(ssh) => {
                    ssh.connection.proxy.get_or_init(|| process);
                    Ok(ssh)
                }
                Err(SshError::Unreachable(_, why)) => {
                    let why = process.failure(&why.to_string()).await;
                    Err(unreachable(std::io::Error::other(why)))
                }
                Err(error) => Err(error),
            };
        }
        let stream = tokio::time::timeout(REACH, TcpStream::connect(address))
            .await
            .map_err(timed_out)?
            .map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let stream = GatedStream::new(stream, gate).counted(target.received.clone());
        let login = Self::login(target, shared, config, stream, host_key, accepts);
        tokio::time::timeout(LOGIN, login)
            .await
            .map_err(timed_out)?
    }

    async fn login(
        target: &Target,
        shared: Shared,
        config: Arc<client::Config>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host_key: PublicHostKey,
        accepts: Option<Accepts>,
    ) -> Result<Self, SshError> {
        let address = target.address;
        tracing::debug!(target: "xdrive::host", "reached");
        let (peer, end) = Peer::new(host_key, accepts);
        let mut handle = client::connect_stream(config, stream, peer)
            .await
            .map_err(|error| handshake_error(address, error))?;
        // A hash is for RSA keys, which `UserKey` refuses.
        let with = PrivateKeyWithHashAlg::new(Arc::clone(&shared.key), None);
        let login = handle.authenticate_publickey(&target.user, with).await;
        match login {
            Ok(client::AuthResult::Success) => {
                tracing::debug!(target: "xdrive::host", "logged in");
                let connection = Connection {
                    handle,
                    target: target.clone(),
                    shared,
                    end,
                    proxy: OnceLock::new(),
                };
                let connection = Arc::new(connection);
                Ok(Self { connection })
            }
            // A connection that ends during authentication looks like a refusal of every method.
            Ok(client::AuthResult::Failure {
                remaining_methods, ..
            }) if !remaining_methods.is_empty() => Err(SshError::Denied(address)),
            _ => Err(SshError::Unreachable(
                address,
                std::io::Error::other(format!("during the login: {}", end.reason().await)),
            )),
        }
    }

    /// Runs `command` (the login shell's words), `stdin` first, and waits for its end.
    ///
    /// Dropping the future closes the command's input and output, which ends most commands; sshd
    /// does not kill one that waits for neither.
    pub async fn run(&self, command: &str, stdin: &[u8]) -> Result<Output, SshError> {
        self.feed(command, stdin).await
    }

    /// As [`Ssh::run`], with a standard input of any length, such as an image of gigabytes.
    ///
    /// At most a few packets of it are held in memory. A command may end without reading all of it.
    pub async fn feed(
        &self,
        command: &str,
        stdin: impl AsyncRead + Unpin + Send,
    ) -> Result<Output, SshError> {
        self.run_named("a command", command, stdin).await
    }

    /// As [`Ssh::feed`], and logs it as `name` (`XDRIVE_LOG=xdrive::host=trace`): when it is sent,
    /// each fact that it prints, its end. The command itself is never logged: it holds the user's
    /// environment.
    pub async fn run_named(
        &self,
        name: &'static str,
        command: &str,
        stdin: impl AsyncRead + Unpin + Send,
    ) -> Result<Output, SshError> {
        self.run_with_facts(name, command, stdin, &mut |_| {}).await
    }

    /// As [`Ssh::run_named`], and calls `on_fact` with each fact as it arrives.
    pub async fn run_with_facts(
        &self,
        name: &'static str,
        command: &str,
        stdin: impl AsyncRead + Unpin + Send,
        on_fact: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Output, SshError> {
        tracing::debug!(target: "xdrive::host", script = name, "sending");
        let output = self.follow(name, command, stdin, on_fact).await;
        let status = output.as_ref().ok().map(|output| output.status);
        tracing::debug!(target: "xdrive::host", script = name, status, "ended");
        output
    }

    /// As [`Ssh::run_named`]. If the command prints the fact `question`, its standard input is the
    /// result of `input`, else empty.
    pub async fn run_if_asked(
        &self,
        name: &'static str,
        command: &str,
        question: &str,
        input: impl FnOnce() -> Vec<u8> + Send,
    ) -> Result<Output, SshError> {
        let (answer, stdin) = late_input();
        let mut answer = Some((answer, input));
        let mut on_fact = |fact: &str| {
            if let Some((answer, input)) = answer.take_if(|_| fact == question) {
                // Fails only where the command has ended.
                let _ = answer.send(Cursor::new(input()));
            }
        };
        self.run_with_facts(name, command, stdin, &mut on_fact)
            .await
    }

    async fn follow(
        &self,
        name: &'static str,
        command: &str,
        mut stdin: impl AsyncRead + Unpin + Send,
        on_fact: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Output, SshError> {
        let mut unread = 0;
        let Session {
            mut messages,
            sender,
        } = self.exec(command, None).await?;
        let mut output = Output {
            status: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        let mut status = None;
        let feeding = async {
            loop {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                if stdin.read_buf(&mut chunk).await? == 0 {
                    break;
                }
                if !sender.send(chunk.freeze()).await {
                    break;
                }
            }
            sender.eof().await;
            Ok::<_, std::io::Error>(())
        };
        tokio::pin!(feeding);
        let mut fed = false;
        let kept = |output: &Output| output.stdout.len() + output.stderr.len();
        loop {
            tokio::select! {
                result = &mut feeding, if !fed => {
                    result.map_err(SshError::Input)?;
                    fed = true;
                }
                message = messages.wait() => match message {
                    Some(ChannelMsg::Data { data }) => {
                        demand_room(kept(&output), data.len())?;
                        output.stdout.extend_from_slice(&data);
                        unread = pass_facts(name, &output.stdout, unread, on_fact);
                    }
                    Some(ChannelMsg::ExtendedData { data, .. }) => {
                        demand_room(kept(&output), data.len())?;
                        output.stderr.extend_from_slice(&data);
                    }
                    Some(ChannelMsg::ExitStatus { exit_status }) => status = Some(exit_status),
                    Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                        status = Some(128 + signal_number(&signal_name));
                    }
                    Some(ChannelMsg::Failure) => {
                        let what = "to run a command".to_owned();
                        return Err(SshError::Refused(self.address(), what));
                    }
                    Some(ChannelMsg::Close) | None => break,
                    Some(_) => {}
                },
            }
        }
        match status {
            Some(status) => Ok(Output { status, ..output }),
            None => Err(self.why_ended().await),
        }
    }

    /// Waits until the connection has ended; the reason.
    pub async fn wait_for_end(&self) -> String {
        self.connection.end.reason().await
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connection.end.has_come()
    }

    /// The address of the connection's other end.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.connection.target.address
    }

    /// Why a session ended without an exit status: the connection's end, or the host closed it.
    pub async fn why_ended(&self) -> SshError {
        // The channel's end is seen just before the connection's.
        let reason = tokio::time::timeout(Duration::from_secs(1), self.wait_for_end())
            .await
            .unwrap_or_else(|_| "the host closed the session without an exit status".to_owned());
        SshError::Lost(self.address(), reason)
    }

    /// Opens a session and asks for `command`, in a terminal if one is described.
    ///
    /// Does not wait for the host's reply: a refusal arrives as [`ChannelMsg::Failure`].
    pub async fn exec(
        &self,
        command: &str,
        terminal: Option<&TerminalRequest>,
    ) -> Result<Session, SshError> {
        let opened = self.connection.handle.channel_open_session().await;
        let session = self.session(opened, "a session").await?;
        if session.sender.ask(command, terminal).await {
            Ok(session)
        } else {
            Err(self.why_ended().await)
        }
    }

    /// As [`Ssh::exec`], with the agent of this computer for what `command` runs.
    pub(super) async fn exec_with_agent(&self, command: &str) -> Result<Session, SshError> {
        let opened = self.connection.handle.channel_open_session().await;
        let session = self.session(opened, "a session").await?;
        if session.sender.offer_agent().await && session.sender.ask(command, None).await {
            Ok(session)
        } else {
            Err(self.why_ended().await)
        }
    }

    /// The cryptographic context of this connection, which an agent has to know before it answers
    /// over it.
    pub(super) fn agent_binding(&self) -> Option<&AgentSessionBinding> {
        self.connection.handle.agent_session_binding()
    }

    async fn session(
        &self,
        opened: Result<Channel<Msg>, russh::Error>,
        what: &str,
    ) -> Result<Session, SshError> {
        match opened {
            Ok(channel) => Ok(self.accepted(channel)),
            Err(russh::Error::ChannelOpenFailure(reason)) => Err(SshError::Refused(
                self.address(),
                format!("{what} ({reason:?})"),
            )),
            Err(_) => Err(self.why_ended().await),
        }
    }
}

/// A standard input whose whole content is sent later.
struct LateInput {
    sent: oneshot::Receiver<Cursor<Vec<u8>>>,
    received: Option<Cursor<Vec<u8>>>,
}

fn late_input() -> (oneshot::Sender<Cursor<Vec<u8>>>, LateInput) {
    let (sender, sent) = oneshot::channel();
    let received = None;
    (sender, LateInput { sent, received })
}

impl AsyncRead for LateInput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.received.is_none() {
            let received = ready!(Pin::new(&mut self.sent).poll(context));
            self.received = Some(received.unwrap_or_default());
        }
        match &mut self.received {
            Some(received) => Pin::new(received).poll_read(context, buffer),
            None => Poll::Pending,
        }
    }
}

/// Calls `on_fact` with the facts in the whole lines of `stdout` from `unread` on; where the next
/// line begins.
fn pass_facts(
    script: &str,
    stdout: &[u8],
    unread: usize,
    on_fact: &mut (dyn FnMut(&str) + Send),
) -> usize {
    let Some(last) = stdout[unread..].iter().rposition(|byte| *byte == b'\n') else {
        return unread;
    };
    let read = unread + last + 1;
    for line in stdout[unread..read].split(|byte| *byte == b'\n') {
        if let Some(fact) = line.strip_prefix(b"xdrive: ") {
            let fact = String::from_utf8_lossy(fact);
            tracing::trace!(target: "xdrive::host", script, %fact, "received");
            on_fact(&fact);
        }
    }
    read
}
