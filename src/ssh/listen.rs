//! The local ports of forwards: on the loopback addresses unless others are asked for.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The listeners' backlog. A page of a notebook opens dozens of connections at once; with the usual
/// 128 some waited a second.
const BACKLOG: u32 = 1024;
/// How many ports after the preferred one are tried before the system chooses.
const TRIES: u16 = 100;

/// The addresses of this computer on which a port listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interface {
    /// 127.0.0.1 and `::1`.
    #[default]
    Loopback,
    /// All there are.
    All,
    /// A single address.
    One(IpAddr),
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("127.0.0.1"),
            Self::All => f.write_str("*"),
            Self::One(IpAddr::V4(address)) => address.fmt(f),
            Self::One(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A local port that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Where it listens.
    pub interface: Interface,
    /// The port; 0 for one that the system chooses.
    pub port: u16,
    /// Whether a busy port is an error, and not replaced by the next free one.
    pub is_exact: bool,
}

/// Listeners on one port: one, or one for IPv4 and one for IPv6.
#[derive(Debug)]
pub(super) struct Listeners {
    first: TcpListener,
    second: Option<TcpListener>,
}

impl Listeners {
    /// Listens on the wanted port, or on the next free one.
    pub(super) fn open(wanted: Wanted) -> io::Result<Self> {
        let Wanted {
            interface,
            port: preferred,
            is_exact,
        } = wanted;
        let next = (1..TRIES).map(|step| match preferred {
            0 => 0,
            port => port.saturating_add(step),
        });
        let others = next.chain([0]).take(if is_exact { 0 } else { usize::MAX });
        let mut error = io::Error::from(io::ErrorKind::AddrInUse);
        for port in std::iter::once(preferred).chain(others) {
            match listen(interface, port) {
                Err(busy) if busy.kind() == io::ErrorKind::AddrInUse => error = busy,
                // Ports below 1024 may be forbidden.
                Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => error = denied,
                other => return other,
            }
        }
        Err(error)
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.first.local_addr()?.port())
    }

    /// The next connection. Loses none if it is dropped before it is ready.
    pub(super) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let second = async {
            match &self.second {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.first.accept() => accepted,
            accepted = second => accepted,
        }
    }
}

fn listen(interface: Interface, port: u16) -> io::Result<Listeners> {
    let only = |first| Listeners {
        first,
        second: None,
    };
    match interface {
        Interface::Loopback => listen_on_both(port),
        Interface::One(address) => listen_on(address, port).map(only),
        // It takes IPv4 too, where there is IPv6.
        Interface::All => match listen_on(Ipv6Addr::UNSPECIFIED.into(), port) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            Err(_) => listen_on(Ipv4Addr::UNSPECIFIED.into(), port).map(only),
            Ok(first) => Ok(only(first)),
        },
    }
}

/// Listens on 127.0.0.1 and, where the computer has IPv6, on `::1`, both on the same port.
fn listen_on_both(port: u16) -> io::Result<Listeners> {
    let first = listen_on(Ipv4Addr::LOCALHOST.into(), port)?;
    let port = first.local_addr()?.port();
    let second = match listen_on(Ipv6Addr::LOCALHOST.into(), port) {
        Ok(second) => Some(second),
        // `localhost` may mean ::1 first: another program's server there would get the token.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
        // No IPv6 on this machine.
        Err(_) => None,
    };
    Ok(Listeners { first, second })
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
