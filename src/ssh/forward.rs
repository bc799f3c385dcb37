//! A local port that is forwarded to an address on the host or in what runs there.
//!
//! Owns the listener, an SSH connection for forwards alone, which is made again whenever it ends,
//! and one task for each TCP connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::channel::Session;
use super::connection::Ssh;
use super::error::SshError;
use super::listen::Listeners;
use super::relay::relay_tcp;
use super::route::Routes;
use super::traffic::Traffic;

pub use super::listen::{Interface, Wanted};
pub use super::route::{Destination, Within};

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
    #[error("cannot listen on {interface}: {error}")]
    Listen {
        /// Where.
        interface: Interface,
        /// The system's error.
        error: io::Error,
    },
    /// The wanted port is busy.
    #[error("port {0} is busy")]
    Busy(u16),
    /// The host, or what runs there, is not reached.
    #[error(transparent)]
    Ssh(#[from] SshError),
}

/// Where connections are forwarded to.
#[derive(Debug, Clone)]
struct Target {
    to: Destination,
    /// Whether its server is still starting: a refused connection is retried as long.
    starting: bool,
}

/// An open forward; dropping it closes the port and every connection through it.
#[derive(Debug)]
pub struct Forward {
    port: u16,
    target: watch::Sender<Target>,
    traffic: Traffic,
    serving: JoinHandle<()>,
}

impl Forward {
    /// Listens on port `preferred` of the loopback addresses, or on the next free one (0: one that
    /// the system chooses), and forwards every connection to `target`, as the host sees it. Returns
    /// at once: a local connection waits until there is one to the host.
    pub fn open(ssh: &Ssh, preferred: u16, target: SocketAddr) -> Result<Self, ForwardError> {
        let wanted = Wanted {
            interface: Interface::Loopback,
            port: preferred,
            is_exact: false,
        };
        Self::to(ssh, wanted, target.into())
    }

    /// As [`Forward::open`], from any local address to any destination.
    pub fn to(ssh: &Ssh, wanted: Wanted, to: Destination) -> Result<Self, ForwardError> {
        let listeners = Listeners::open(wanted);
        let port = listeners.and_then(|it| Ok((it.port()?, it)));
        let (port, listeners) = port.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse if wanted.is_exact => ForwardError::Busy(wanted.port),
            _ => ForwardError::Listen {
                interface: wanted.interface,
                error,
            },
        })?;
        let ssh = ssh.clone();
        let (target, targets) = watch::channel(Target {
            to,
            starting: false,
        });
        let traffic = Traffic::default();
        let serving = tokio::spawn(serve(listeners, ssh, targets, traffic.clone()));
        Ok(Self {
            port,
            target,
            traffic,
            serving,
        })
    }

    /// The local port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that connections are forwarded to, if the host reaches it itself.
    #[must_use]
    pub fn target(&self) -> Option<SocketAddr> {
        self.target.borrow().to.address
    }

    /// Forwards new connections to another address: that of a restarted container.
    pub fn retarget(&self, target: SocketAddr) {
        self.target.send_modify(|now| now.to = target.into());
    }

    /// Closes the port to new connections at once, and returns what waits until each that is open has
    /// ended, or has paused for as long as `pause`: it has delivered nothing in that time, or less than
    /// a transfer does.
    pub fn settled(&self, pause: Duration) -> impl Future<Output = ()> + use<> {
        self.traffic.settled(pause)
    }

    /// Sets whether the server behind it is still starting. While it is, a refused connection waits
    /// instead of being closed.
    pub fn set_starting(&self, starting: bool) {
        self.target.send_modify(|now| now.starting = starting);
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts until it is aborted, over a connection of its own to the host of `ssh`. When that ends,
/// the relayed ones end with it; the port stays, and new ones wait in its backlog until there is
/// another connection to the host. Where no connection may begin any more, the port closes, and the
/// relayed ones go on.
async fn serve(
    listeners: Listeners,
    mut ssh: Ssh,
    targets: watch::Receiver<Target>,
    traffic: Traffic,
) {
    let mut listeners = Some(listeners);
    while listeners.is_some() {
        let routes = tokio::select! {
            routes = reconnected(&ssh) => routes,
            () = traffic.over() => return,
        };
        relay_all(&mut listeners, &routes, &targets, &traffic).await;
        ssh = routes.outer().clone();
    }
}

/// A connection beside `ssh`, tried for until there is one.
pub(super) async fn reconnected(ssh: &Ssh) -> Routes {
    loop {
        match Routes::open(ssh).await {
            Ok(routes) => return routes,
            Err(_) => tokio::time::sleep(RECONNECT).await,
        }
    }
}

/// Accepts until the connection to the host ends. Takes the listeners once the port is to close.
async fn relay_all(
    listeners: &mut Option<Listeners>,
    routes: &Routes,
    targets: &watch::Receiver<Target>,
    traffic: &Traffic,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepting = async {
            match &*listeners {
                Some(listeners) => listeners.accept().await,
                None => std::future::pending().await,
            }
        };
        let accepted = tokio::select! {
            accepted = accepting => Some(accepted),
            () = traffic.over(), if listeners.is_some() => None,
            Some(_) = connections.join_next() => continue,
            _ = routes.outer().wait_for_end() => return,
        };
        let Some(accepted) = accepted else {
            *listeners = None;
            continue;
        };
        // An error concerns one connection, or passes when others end (too many open files).
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (routes, targets, traffic) = (routes.clone(), targets.clone(), traffic.clone());
        connections.spawn(async move {
            // From here on: also the answer of the host waits for readers that are behind.
            let unread = routes.carrier().queue();
            if let Some(session) = open(&routes, from, &targets).await {
                relay_tcp(stream, session, (unread, &traffic)).await;
            }
        });
    }
}

/// Opens a connection to the target; again and again while its server is starting.
async fn open(
    routes: &Routes,
    from: SocketAddr,
    targets: &watch::Receiver<Target>,
) -> Option<Session> {
    loop {
        let Target { to, starting } = targets.borrow().clone();
        match routes.connect(&to, from).await {
            Ok(session) => return Some(session),
            Err(SshError::Refused(..)) if starting => tokio::time::sleep(AGAIN).await,
            Err(_) => return None,
        }
    }
}
