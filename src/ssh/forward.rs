//! A local port that is forwarded to an address that the host can reach.
//!
//! Owns the listener, an SSH connection for forwards alone, which is made again whenever it ends,
//! and one task for each TCP connection. It never stops draining a channel: a browser that stops
//! reading would freeze every other one. What a local program has not read waits in memory; at
//! 64 MiB that one connection is dropped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use russh::ChannelMsg;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::channel::{CHUNK, Sender, Session};
use super::connection::Ssh;
use super::error::SshError;

/// The most bytes that one local connection may leave unread; with more it is dropped.
const UNREAD: usize = 64 << 20;
/// The listeners' backlog. A page of a notebook opens dozens of connections at once; with the usual
/// 128 some waited a second.
const BACKLOG: u32 = 1024;
/// How many ports after the preferred one are tried before the system chooses.
const TRIES: u16 = 100;
/// The pause before connecting again to a server that is starting.
const AGAIN: Duration = Duration::from_millis(100);
/// The pause before connecting to the host again, after that failed.
const RECONNECT: Duration = Duration::from_secs(1);
/// The pause before accepting again, after the system could not accept.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a forward could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No local port.
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(#[from] io::Error),
}

/// The address that connections are forwarded to.
#[derive(Debug, Clone, Copy)]
struct Target {
    address: SocketAddr,
    /// Whether its server is still starting: a refused connection is retried as long.
    starting: bool,
}

/// An open forward; dropping it closes the port and every connection through it.
#[derive(Debug)]
pub struct Forward {
    port: u16,
    target: watch::Sender<Target>,
    serving: JoinHandle<()>,
}

impl Forward {
    /// Listens on port `preferred` of the loopback addresses, or on the next free one (0: one that
    /// the system chooses), and forwards every connection to `target`, as the host sees it. Returns
    /// at once: a local connection waits until there is one to the host.
    pub fn open(ssh: &Ssh, preferred: u16, target: SocketAddr) -> Result<Self, ForwardError> {
        let listeners = listen(preferred)?;
        let port = listeners[0].local_addr()?.port();
        let ssh = ssh.clone();
        let (target, targets) = watch::channel(Target {
            address: target,
            starting: false,
        });
        let serving = tokio::spawn(serve(listeners, ssh, targets));
        Ok(Self {
            port,
            target,
            serving,
        })
    }

    /// The local port, on 127.0.0.1 and, where there is IPv6, on `::1`.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that connections are forwarded to.
    #[must_use]
    pub fn target(&self) -> SocketAddr {
        self.target.borrow().address
    }

    /// Forwards new connections to another address: that of a restarted container.
    pub fn retarget(&self, target: SocketAddr) {
        self.target.send_modify(|now| now.address = target);
    }

    /// Sets whether the server behind it is still starting. As long, a connection that is refused
    /// waits instead of being closed.
    pub fn set_starting(&self, starting: bool) {
        self.target.send_modify(|now| now.starting = starting);
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One listener for IPv4 and one for IPv6 where there is any, on the same port.
fn listen(preferred: u16) -> io::Result<Vec<TcpListener>> {
    let next = (1..TRIES).map(|step| match preferred {
        0 => 0,
        port => port.saturating_add(step),
    });
    let candidates = std::iter::once(preferred).chain(next).chain([0]);
    let mut error = io::Error::from(io::ErrorKind::AddrInUse);
    for port in candidates {
        match listen_both(port) {
            Err(busy) if busy.kind() == io::ErrorKind::AddrInUse => error = busy,
            // Ports below 1024 may be forbidden.
            Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => error = denied,
            other => return other,
        }
    }
    Err(error)
}

fn listen_both(port: u16) -> io::Result<Vec<TcpListener>> {
    let first = listen_on(Ipv4Addr::LOCALHOST.into(), port)?;
    let port = first.local_addr()?.port();
    match listen_on(Ipv6Addr::LOCALHOST.into(), port) {
        Ok(second) => Ok(vec![first, second]),
        // `localhost` may mean ::1 first: another program's server there would get the token.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // No IPv6 on this machine.
        Err(_) => Ok(vec![first]),
    }
}

fn listen_on(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let socket = match address {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Else a port stays busy for a minute after its last connection.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(address, port))?;
    socket.listen(BACKLOG)
}

/// Opens a connection for forwards alone, to the host of `ssh`.
async fn connect(ssh: &Ssh) -> Result<Ssh, SshError> {
    let ssh = ssh.sibling().await?;
    // sshd sends small packets without delay only on a connection that has run a command.
    ssh.run("true", b"").await?;
    Ok(ssh)
}

/// Accepts until it is aborted, over a connection of its own to the host of `ssh`. When that ends,
/// the relayed ones end with it; the port stays, and new ones wait in its backlog until there is
/// another connection to the host.
async fn serve(listeners: Vec<TcpListener>, mut ssh: Ssh, targets: watch::Receiver<Target>) {
    let mut listeners = listeners.into_iter();
    let (Some(first), second) = (listeners.next(), listeners.next()) else {
        return;
    };
    loop {
        ssh = loop {
            match connect(&ssh).await {
                Ok(ssh) => break ssh,
                Err(_) => tokio::time::sleep(RECONNECT).await,
            }
        };
        relay_all(&first, second.as_ref(), &ssh, &targets).await;
    }
}

/// Accepts until the connection to the host ends.
async fn relay_all(
    first: &TcpListener,
    second: Option<&TcpListener>,
    ssh: &Ssh,
    targets: &watch::Receiver<Target>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = first.accept() => accepted,
            accepted = accept(second) => accepted,
            Some(_) = connections.join_next() => continue,
            _ = ssh.ended() => return,
        };
        // An error concerns one connection, or passes when others end (too many open files).
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (ssh, targets) = (ssh.clone(), targets.clone());
        connections.spawn(async move {
            if let Some(session) = open(&ssh, from, &targets).await {
                relay(stream, session).await;
            }
        });
    }
}

/// Opens a connection to the target; again and again while its server is starting.
async fn open(ssh: &Ssh, from: SocketAddr, targets: &watch::Receiver<Target>) -> Option<Session> {
    loop {
        let Target { address, starting } = *targets.borrow();
        match ssh.open_tcp(address, from).await {
            Ok(session) => return Some(session),
            Err(SshError::Refused(..)) if starting => tokio::time::sleep(AGAIN).await,
            Err(_) => return None,
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Relays until the host has closed its side and all is delivered, or either side breaks off.
async fn relay(stream: TcpStream, session: Session) {
    // If it fails only latency suffers.
    let _slower = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let Session {
        mut messages,
        sender,
    } = session;
    let (queue, mut queued) = mpsc::unbounded_channel::<Bytes>();
    let unread = AtomicUsize::new(0);

    let down = async {
        let draining = async {
            let mut queue = Some(queue);
            loop {
                match messages.wait().await {
                    Some(ChannelMsg::Data { data }) => {
                        let length = unread.fetch_add(data.len(), Ordering::Relaxed) + data.len();
                        if length > UNREAD {
                            return Err(());
                        }
                        if let Some(queue) = &queue {
                            queue.send(data).map_err(drop)?;
                        }
                    }
                    Some(ChannelMsg::Eof) => queue = None,
                    Some(ChannelMsg::Close) | None => return Ok(()),
                    Some(_) => {}
                }
            }
        };
        tokio::try_join!(draining, deliver(&mut writer, &mut queued, &unread))
    };
    let up = send(reader, &sender);
    tokio::pin!(down, up);
    let mut sent = false;
    loop {
        tokio::select! {
            _ = &mut down => return,
            result = &mut up, if !sent => match result {
                Ok(()) => sent = true,
                Err(()) => return,
            },
        }
    }
}

/// Writes what is queued, and shuts the local connection's receiving side down after the host's.
async fn deliver(
    writer: &mut OwnedWriteHalf,
    queued: &mut mpsc::UnboundedReceiver<Bytes>,
    unread: &AtomicUsize,
) -> Result<(), ()> {
    while let Some(data) = queued.recv().await {
        writer.write_all(&data).await.map_err(drop)?;
        unread.fetch_sub(data.len(), Ordering::Relaxed);
    }
    writer.shutdown().await.map_err(drop)
}

async fn send(mut reader: OwnedReadHalf, sender: &Sender) -> Result<(), ()> {
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        match reader.read_buf(&mut chunk).await {
            Ok(0) => break,
            Ok(_) if sender.send(chunk.freeze()).await => {}
            _ => return Err(()),
        }
    }
    if sender.eof().await { Ok(()) } else { Err(()) }
}
