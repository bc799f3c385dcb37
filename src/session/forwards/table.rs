//! The table of a session's forwards, and what opens one into its container.

use std::net::SocketAddr;

use super::offers::Offers;
use super::order::Direction;
use crate::config::Forwarding;
use crate::host::container::Container;
use crate::host::ports::JUPYTER_PORT;
use crate::host::scripts::Host;
use crate::ssh::Ssh;
use crate::ssh::forward::{Destination, Forward, ForwardError, Wanted, Within};
use crate::ssh::remote::{Here, RemoteForward, RemoteWanted};

/// All forwards of a session.
#[derive(Default)]
pub(super) struct Table {
    /// The way into the container, once there is one.
    pub(super) entrance: Option<Entrance>,
    pub(super) local: Vec<Entry<Forward>>,
    pub(super) remote: Vec<Entry<RemoteForward>>,
    pub(super) offers: Offers,
    /// Whether Jupyter has a forward of its own.
    pub(super) has_jupyter: bool,
    /// How many servers have had a name.
    servers: usize,
}

/// A forward that was asked for; none if it could not be opened.
pub(super) struct Entry<F> {
    pub(super) forward: Option<F>,
    pub(super) wanted: Forwarding,
}

/// The connection over which forwards into a container are opened.
#[derive(Clone)]
pub(super) struct Entrance {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    pub(super) container: Container,
    /// The session, which names its servers.
    pub(super) session: String,
    pub(super) is_exact: bool,
}

impl Table {
    /// The entrance, with the command of a new server in the container.
    pub(super) fn server(&mut self, direction: Direction) -> Option<(Entrance, String)> {
        let entrance = self.entrance.clone()?;
        self.servers += 1;
        let name = format!("{}{}{}", entrance.session, direction.flag(), self.servers);
        let server = entrance.host.ssh_server(&entrance.container, Some(&name));
        Some((entrance, server))
    }

    /// Adds it on the port that it has got; its line.
    pub(super) fn add_local(&mut self, forward: Forward, wanted: &Forwarding) -> String {
        let wanted = Forwarding {
            port: forward.port(),
            ..wanted.clone()
        };
        let forward = Some(forward);
        let entry = Entry { forward, wanted };
        let line = entry.line();
        self.local.push(entry);
        line.unwrap_or_default()
    }

    pub(super) fn add_remote(&mut self, forward: RemoteForward, wanted: &Forwarding) -> String {
        let entry = Entry {
            forward: Some(forward),
            wanted: wanted.clone(),
        };
        let line = entry.line();
        self.remote.push(entry);
        line.unwrap_or_default()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let local = self.local.iter().filter_map(Entry::<Forward>::line);
        let remote = self.remote.iter().filter_map(Entry::<RemoteForward>::line);
        local.chain(remote).collect()
    }

    /// Ends the forwards on this port; the answer.
    pub(super) fn close(&mut self, direction: Direction, port: u16) -> String {
        let before = self.local.len() + self.remote.len();
        let is_on = |open: Option<u16>| open == Some(port);
        match direction {
            Direction::Local => self
                .local
                .retain(|it| !is_on(it.forward.as_ref().map(Forward::port))),
            Direction::Remote => self
                .remote
                .retain(|it| !is_on(it.forward.as_ref().map(RemoteForward::port))),
        }
        let place = match direction {
            Direction::Local => "of this computer",
            Direction::Remote => "in the container",
        };
        if before == self.local.len() + self.remote.len() {
            format!("port {port} {place} is not forwarded: ~# lists what is")
        } else {
            format!("port {port} {place} is forwarded no more")
        }
    }

    /// Whether a forward leads to this port of the container.
    pub(super) fn is_forwarded(&self, port: u16) -> bool {
        let leads = |it: &Entry<_>| it.wanted.is_to_loopback() && it.wanted.host_port == port;
        (self.has_jupyter && port == JUPYTER_PORT) || self.local.iter().any(leads)
    }
}

impl Entry<Forward> {
    pub(super) fn line(&self) -> Option<String> {
        let (at, to) = (self.wanted.interface, destination(&self.wanted));
        let port = self.forward.as_ref()?.port();
        Some(format!("{at}:{port} leads to {to} in the container"))
    }
}

impl Entry<RemoteForward> {
    pub(super) fn line(&self) -> Option<String> {
        let to = destination(&self.wanted);
        let port = self.forward.as_ref()?.port();
        Some(format!("port {port} in the container leads to {to} here"))
    }
}

impl<F> Entry<F> {
    pub(super) fn unopened(wanted: &Forwarding) -> Self {
        Self {
            forward: None,
            wanted: wanted.clone(),
        }
    }
}

/// The line about a wanted port that another one replaced: it is busy, or below 1024 on this
/// computer and root's.
pub(super) fn replaced(direction: Direction, wanted: &Forwarding, port: u16) -> Option<String> {
    let place = match direction {
        Direction::Local => "",
        Direction::Remote => " in the container",
    };
    let (busy, flag) = (wanted.port, direction.flag());
    let why = match direction {
        Direction::Local if busy < 1024 => "is busy, or root's",
        _ => "is busy",
    };
    (port != busy).then(|| format!("port {busy}{place} {why}: {flag} {wanted} gets port {port}"))
}

/// The end of a forward.
fn destination(forward: &Forwarding) -> String {
    if forward.is_to_loopback() {
        format!("port {}", forward.host_port)
    } else {
        format!("{}:{}", forward.host, forward.host_port)
    }
}

pub(super) fn open(
    entrance: &Entrance,
    wanted: &Forwarding,
    server: String,
) -> Result<Forward, ForwardError> {
    let at = Wanted {
        interface: wanted.interface,
        port: wanted.port,
        is_exact: entrance.is_exact,
    };
    let address = SocketAddr::new(entrance.container.address, wanted.host_port);
    let to = Destination {
        address: wanted.is_to_loopback().then_some(address),
        within: Some(Within {
            server,
            host: wanted.host.clone(),
            port: wanted.host_port,
        }),
    };
    Forward::to(&entrance.ssh, at, to)
}

pub(super) async fn open_remote(
    entrance: &Entrance,
    wanted: &Forwarding,
    server: String,
) -> Result<RemoteForward, ForwardError> {
    let wanted = RemoteWanted {
        server,
        bind: wanted.bind(),
        port: wanted.port,
        is_exact: entrance.is_exact,
        to: Here::Port(wanted.host.clone(), wanted.host_port),
    };
    RemoteForward::open(&entrance.ssh, wanted).await
}
