//! A port in the network of what runs on a host, forwarded to an address that this computer reaches.
//!
//! Owns an SSH connection of its own, with an SSH server in that network within it, and makes both
//! again whenever they end: the port comes back with them.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::connection::Ssh;
use super::error::SshError;
use super::forward::{ForwardError, reconnected};
use super::peer::{Accepts, Inbox, Opened};
use super::relay::{relay, relay_tcp};
use super::route::Routes;
use super::traffic::Traffic;
use super::unread::{Carrier, UnreadQueue};

/// The pause before the port is requested again, while the lost connection still holds it.
const AGAIN: Duration = Duration::from_secs(1);

/// The local end of connections to a port on the host.
#[derive(Debug, Clone)]
pub enum Here {
    /// A host and port to connect to from here.
    Port(String, u16),
    /// A service in this process, which gets each connection.
    Service(mpsc::UnboundedSender<DuplexStream>),
}

/// How many connections there may be through one port; more are refused. Each takes a file here, of
/// the 1024 that a process may have open on most systems.
const CONNECTIONS: usize = 512;

/// The buffer of a connection to a service in this process, in bytes.
const ON_ITS_WAY: usize = 64 << 10;

/// The port that is wanted there, and where it leads from here.
#[derive(Debug, Clone)]
pub struct RemoteWanted {
    /// As in [`super::forward::Within`]. Run again, it ends what it ran before.
    pub server: String,
    /// The address there to listen on, as a `tcpip-forward` request has it (RFC 4254, section 7.1).
    pub bind: String,
    /// The port there.
    pub port: u16,
    /// Whether a busy port is an error, and not replaced by another one.
    pub is_exact: bool,
    /// Where it leads from here.
    pub to: Here,
}

/// An open forward; dropping it closes the port and every connection through it.
#[derive(Debug)]
pub struct RemoteForward {
    port: u16,
    traffic: Traffic,
    serving: JoinHandle<()>,
}

/// A connection within another one, and the channels that its server opens.
struct InnerConnection {
    outer: Ssh,
    carrier: Arc<Carrier>,
    /// The place of whoever connects next, who is not seen before.
    _next: UnreadQueue,
    inner: Ssh,
    opened: mpsc::UnboundedReceiver<Opened>,
}

impl RemoteForward {
    /// Listens there; returns once it does.
    pub async fn open(ssh: &Ssh, wanted: RemoteWanted) -> Result<Self, ForwardError> {
        let inside = InnerConnection::open(Routes::open(ssh).await?, &wanted.server).await?;
        let port = match inside.listen(&wanted.bind, wanted.port).await {
            Err(SshError::Refused(..)) if wanted.is_exact => {
                return Err(ForwardError::Busy(wanted.port));
            }
            Err(SshError::Refused(..)) => inside.listen(&wanted.bind, 0).await?,
            answer => answer?,
        };
        let traffic = Traffic::default();
        let serving = tokio::spawn(serve(inside, wanted, port, traffic.clone()));
        Ok(Self {
            port,
            traffic,
            serving,
        })
    }

    /// The port there.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// As [`super::forward::Forward::settled`].
    pub fn settled(&self, pause: Duration) -> impl Future<Output = ()> + use<> {
        self.traffic.settled(pause)
    }
}

impl Drop for RemoteForward {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl InnerConnection {
    async fn open(routes: Routes, server: &str) -> Result<Self, SshError> {
        let (outer, carrier) = (routes.outer().clone(), Arc::clone(routes.carrier()));
        let (inbox, opened) = Inbox::new(CONNECTIONS);
        let accepts = Some(Accepts::Ports(inbox));
        let inner = outer.within(server, &carrier, accepts).await?;
        Ok(Self {
            outer,
            _next: carrier.queue(),
            carrier,
            inner,
            opened,
        })
    }

    /// Listens on this port, or on one that the server chooses (0); returns it.
    async fn listen(&self, bind: &str, port: u16) -> Result<u16, SshError> {
        let chosen = self.inner.listen(bind, port).await?;
        Ok(if port == 0 { chosen } else { port })
    }
}

/// Relays until it is aborted. When the connection ends, the same port is asked for over another.
async fn serve(mut inside: InnerConnection, wanted: RemoteWanted, port: u16, traffic: Traffic) {
    loop {
        relay_all(&mut inside, &wanted.to, &traffic).await;
        if traffic.is_over() {
            return;
        }
        inside = loop {
            let routes = reconnected(&inside.outer).await;
            if let Ok(again) = InnerConnection::open(routes, &wanted.server).await
                && again.listen(&wanted.bind, port).await.is_ok()
            {
                break again;
            }
            tokio::time::sleep(AGAIN).await;
        };
    }
}

/// Relays until the connection ends.
async fn relay_all(inside: &mut InnerConnection, to: &Here, traffic: &Traffic) {
    let mut connections = JoinSet::new();
    let mut is_over = false;
    loop {
        let opened = tokio::select! {
            Some(opened) = inside.opened.recv(), if !is_over => opened,
            () = traffic.over(), if !is_over => {
                // What the host opens from now on is refused.
                inside.opened.close();
                is_over = true;
                continue;
            }
            Some(_) = connections.join_next() => continue,
            _ = inside.inner.wait_for_end() => return,
            _ = inside.outer.wait_for_end() => return,
        };
        let Opened { channel, place } = opened;
        let session = inside.inner.accepted(channel);
        let (to, traffic) = (to.clone(), traffic.clone());
        let unread = inside.carrier.queue();
        connections.spawn(async move {
            let _place = place;
            // Without a connection from here the channel is dropped, which closes it.
            match to {
                Here::Port(host, port) => {
                    if let Ok(stream) = TcpStream::connect((host.as_str(), port)).await {
                        relay_tcp(stream, session, (unread, &traffic)).await;
                    }
                }
                Here::Service(service) => {
                    let (near, far) = tokio::io::duplex(ON_ITS_WAY);
                    if service.send(far).is_ok() {
                        let (reader, writer) = tokio::io::split(near);
                        relay(reader, writer, session, (unread, &traffic)).await;
                    }
                }
            }
        });
    }
}
