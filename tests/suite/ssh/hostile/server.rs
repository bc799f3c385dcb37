//! A server that has the right key and logs the client in, and then does what no sshd does.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use russh::keys::PrivateKey;
use russh::server::{self, Auth, ChannelOpenHandle, Handle, Msg, VerifiedPublicKey};
use russh::{Channel, ChannelId, Disconnect, Error};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How many bytes it sends where it sends without end: far more than a client may keep.
pub(super) const ENDLESS: usize = 300 << 20;
/// How many channels it opens of each kind.
pub(super) const CHANNELS: usize = 3000;

/// The server's attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// No attack: the command ends with status 3.
    Friendly,
    /// Lines before the version, without end.
    Lines,
    /// A single line before the version, without end.
    Line,
    /// A banner of hundreds of MiB.
    Banner,
    /// Channels that nobody asked for; then the command may end.
    Channels,
    /// Connections without end to a port that was asked for.
    Ports,
    /// Connections without end to the agent.
    Agent,
    /// Output without end where a line is expected.
    NoAgent,
    /// Random bytes once a command runs.
    Garbage,
    /// A command prints without end.
    Output,
    /// Output without end on the command's standard error.
    Errors,
    /// A host of xdrive's by its word, of which each script prints one line without end.
    Script,
    /// A host of xdrive's that attaches a client, and has events for it without end.
    Events,
    /// The end of the connection, for a reason that would take over a terminal.
    Reason,
}

/// The requests that the server has seen, and the files that tell a client.
#[derive(Clone)]
pub(super) struct Seen {
    /// The channels that the client accepted.
    pub(super) accepted: Arc<AtomicUsize>,
    /// Whether a command runs.
    commanded: Arc<AtomicBool>,
    /// A file that is there once it has opened all its channels.
    pub(super) done: PathBuf,
}

impl Seen {
    pub(super) fn new(done: PathBuf) -> Self {
        Self {
            accepted: Arc::default(),
            commanded: Arc::default(),
            done,
        }
    }
}

/// Serves connections until the runtime ends; its address.
pub(super) async fn serve(kind: Kind, host_key: &str, seen: Seen) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(server::Config {
        keys: vec![PrivateKey::from_openssh(host_key).unwrap()],
        window_size: 1 << 20,
        ..server::Config::default()
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (config, seen) = (Arc::clone(&config), seen.clone());
            tokio::spawn(async move {
                match kind {
                    Kind::Lines => flood(stream, b"come in, come in\r\n").await,
                    Kind::Line => flood(stream, b"come in, come in").await,
                    Kind::Garbage => spoil(stream, config, seen).await,
                    _ => converse(stream, config, Server::new(kind, seen)).await,
                }
            });
        }
    });
    address
}

/// Sends `text` over and over.
async fn flood(mut stream: TcpStream, text: &[u8]) {
    let text = text.repeat(4096);
    for _ in 0..ENDLESS / text.len() {
        if stream.write_all(&text).await.is_err() {
            return;
        }
    }
}

async fn converse(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    config: Arc<server::Config>,
    server: Server,
) {
    if let Ok(session) = server::run_stream(config, stream, server).await {
        // An error is the client's end of it.
        let _ = session.await;
    }
}

/// Carries a conversation to a server behind it; random bytes follow once a command runs.
async fn spoil(stream: TcpStream, config: Arc<server::Config>, seen: Seen) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let commanded = Arc::clone(&seen.commanded);
    tokio::spawn(converse(far, config, Server::new(Kind::Garbage, seen)));
    let (mut from_server, mut to_server) = tokio::io::split(near);
    let (mut from_client, mut to_client) = stream.into_split();
    tokio::spawn(async move {
        // Ends with either of them.
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let mut buffer = vec![0; 16 << 10];
    while !commanded.load(Ordering::Relaxed) {
        let reading = from_server.read(&mut buffer);
        let late = std::time::Duration::from_millis(20);
        if let Ok(Ok(length)) = tokio::time::timeout(late, reading).await {
            to_client.write_all(&buffer[..length]).await.unwrap();
        }
    }
    for _ in 0..ENDLESS / buffer.len() {
        getrandom::fill(&mut buffer).unwrap();
        if to_client.write_all(&buffer).await.is_err() {
            return;
        }
    }
}

/// The command of the first script contains this.
const CONTACT: &[u8] = b"session contact";

struct Server {
    kind: Kind,
    seen: Seen,
    sessions: HashMap<ChannelId, Channel<Msg>>,
}

impl Server {
    fn new(kind: Kind, seen: Seen) -> Self {
        let sessions = HashMap::new();
        Self {
            kind,
            seen,
            sessions,
        }
    }
}

impl server::Handler for Server {
    type Error = Error;

    async fn auth_publickey(&mut self, _: &str, _: VerifiedPublicKey<'_>) -> Result<Auth, Error> {
        Ok(Auth::Accept)
    }

    async fn authentication_banner(&mut self) -> Result<Option<String>, Error> {
        Ok((self.kind == Kind::Banner).then(|| "come in ".repeat(ENDLESS / 8)))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut server::Session,
    ) -> Result<(), Error> {
        self.sessions.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn agent_request(
        &mut self,
        _: ChannelId,
        _: &mut server::Session,
    ) -> Result<bool, Error> {
        Ok(true)
    }

    async fn tcpip_forward(
        &mut self,
        _: &str,
        _: &mut u32,
        session: &mut server::Session,
    ) -> Result<bool, Error> {
        let (handle, seen) = (session.handle(), self.seen.clone());
        tokio::spawn(async move {
            let mut open = Vec::new();
            for _ in 0..CHANNELS {
                let channel = handle.channel_open_forwarded_tcpip("127.0.0.1", 1, "127.0.0.1", 2);
                open.extend(channel.await);
                seen.accepted.store(open.len(), Ordering::Relaxed);
            }
            std::fs::write(&seen.done, "").unwrap();
            std::future::pending::<()>().await;
        });
        Ok(true)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut server::Session,
    ) -> Result<(), Error> {
        session.channel_success(id)?;
        self.seen.commanded.store(true, Ordering::Relaxed);
        let handle = session.handle();
        if command == b"serve" {
            let channel = self.sessions.remove(&id).unwrap();
            let keys = session.config().keys.clone();
            let config = Arc::new(server::Config {
                keys,
                ..server::Config::default()
            });
            let server = Self::new(self.kind, self.seen.clone());
            tokio::spawn(converse(channel.into_stream(), config, server));
        } else if command == b"true" {
            tokio::spawn(end(handle, id, 0));
        } else if command.windows(CONTACT.len()).any(|part| part == CONTACT) {
            tokio::spawn(async move {
                let _ = handle.data(id, "xdrive: booted=yes\n").await;
                end(handle, id, 0).await;
            });
        } else {
            let (kind, seen) = (self.kind, self.seen.clone());
            tokio::spawn(async move { run(kind, &seen, handle, id).await });
        }
        Ok(())
    }
}

/// Runs a command. Whatever fails, fails because the client has gone.
async fn run(kind: Kind, seen: &Seen, handle: Handle, id: ChannelId) {
    match kind {
        Kind::Channels => {
            for _ in 0..CHANNELS {
                let opened = [
                    handle.channel_open_session().await,
                    handle.channel_open_agent().await,
                    handle.channel_open_x11("127.0.0.1", 1).await,
                    handle
                        .channel_open_forwarded_tcpip("127.0.0.1", 1, "127.0.0.1", 2)
                        .await,
                    handle.channel_open_forwarded_streamlocal("/x").await,
                    handle
                        .channel_open_direct_tcpip("127.0.0.1", 1, "127.0.0.1", 2)
                        .await,
                ];
                let accepted = opened.iter().filter(|channel| channel.is_ok()).count();
                seen.accepted.fetch_add(accepted, Ordering::Relaxed);
            }
        }
        Kind::Agent => {
            let line = bytes::Bytes::from_static(b"xdrive: agent=/run/agent\n");
            let _ = handle.data(id, line).await;
            let mut open = Vec::new();
            for _ in 0..CHANNELS {
                open.extend(handle.channel_open_agent().await);
                seen.accepted.store(open.len(), Ordering::Relaxed);
            }
            std::fs::write(&seen.done, "").unwrap();
            std::future::pending::<()>().await;
        }
        Kind::Output | Kind::Errors | Kind::NoAgent | Kind::Script | Kind::Events => {
            let _ = match kind {
                Kind::Events => handle.data(id, "xdrive: attached=me\n").await,
                _ => Ok(()),
            };
            let piece = bytes::Bytes::from(match kind {
                Kind::Script => "without end ".repeat(2048),
                Kind::Events => "xdrive: event=unmounted\n".repeat(1024),
                _ => "without end\n".repeat(2048),
            });
            for _ in 0..ENDLESS / piece.len() {
                let sent = match kind {
                    Kind::Output | Kind::Script | Kind::Events => {
                        handle.data(id, piece.clone()).await
                    }
                    _ => handle.extended_data(id, 1, piece.clone()).await,
                };
                if sent.is_err() {
                    return;
                }
            }
        }
        Kind::Reason => {
            let reason = "\x1b]0;taken over\x07\x1b[2J".repeat(1000);
            let by = Disconnect::ByApplication;
            let _ = handle.disconnect(by, reason, String::new()).await;
            return;
        }
        _ => {}
    }
    end(handle, id, 3).await;
}

async fn end(handle: Handle, id: ChannelId, status: u32) {
    let _ = handle.exit_status_request(id, status).await;
    let _ = handle.eof(id).await;
    let _ = handle.close(id).await;
}
