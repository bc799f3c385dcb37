//! The ways of a forward's connections: from the host itself, or from within what runs on it.
//!
//! A container's port that listens on all its addresses is reached from the host directly. One that
//! listens on the container's loopback alone is reached through an SSH server in its network, which
//! runs over a channel of the same connection; that is started once it is needed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;

use super::channel::Session;
use super::connection::Ssh;
use super::error::SshError;
use super::unread::Carrier;

/// An address in the network of what runs on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// The command that runs an SSH server in that network on its standard streams, with the host's
    /// key, for the same user.
    pub server: String,
    /// A name or an address, as that server sees it.
    pub host: String,
    /// The port there.
    pub port: u16,
}

/// Where a forward leads: to the first of these that accepts a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Destination {
    /// As the host sees it.
    pub address: Option<SocketAddr>,
    /// As what runs on the host sees it.
    pub within: Option<Within>,
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self {
            address: Some(address),
            within: None,
        }
    }
}

/// A connection for forwards alone, and the one within it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Routes {
    outer: Ssh,
    carrier: Arc<Carrier>,
    within: Arc<Inner>,
}

/// The connection within another one.
#[derive(Default)]
struct Inner {
    ssh: Mutex<Option<Ssh>>,
    /// Whether the last connection was possible from there alone.
    is_used: AtomicBool,
}

impl Routes {
    /// Connects beside `ssh`.
    pub(super) async fn open(ssh: &Ssh) -> Result<Self, SshError> {
        let (outer, carrier) = ssh.carrier(None).await?;
        // sshd sends small packets without delay only on a connection that has run a command.
        outer.run("true", b"").await?;
        Ok(Self {
            outer,
            carrier,
            within: Arc::default(),
        })
    }

    /// The connection to the host, to connect beside it again.
    pub(super) fn outer(&self) -> &Ssh {
        &self.outer
    }

    /// The count of bytes that local programs have not read yet of these connections.
    pub(super) fn carrier(&self) -> &Arc<Carrier> {
        &self.carrier
    }

    /// Opens a TCP connection, on behalf of `from`.
    pub(super) async fn connect(
        &self,
        to: &Destination,
        from: SocketAddr,
    ) -> Result<Session, SshError> {
        if let Some(address) = to.address
            && !(to.within.is_some() && self.within.is_used.load(Ordering::Relaxed))
        {
            match self.outer.open_tcp(address, from).await {
                Err(SshError::Refused(..)) if to.within.is_some() => {}
                answer => return answer,
            }
        }
        let Some(within) = &to.within else {
            let nowhere = "a connection to nowhere".to_owned();
            return Err(SshError::Refused(self.outer.address(), nowhere));
        };
        let inner = self.inner(&within.server).await?;
        let session = inner.open_host(&within.host, within.port, from).await;
        self.within
            .is_used
            .store(session.is_ok(), Ordering::Relaxed);
        session
    }

    async fn inner(&self, server: &str) -> Result<Ssh, SshError> {
        let mut inner = self.within.ssh.lock().await;
        if let Some(ssh) = inner.as_ref().filter(|ssh| !ssh.has_ended()) {
            return Ok(ssh.clone());
        }
        let ssh = self.outer.within(server, &self.carrier, None).await?;
        Ok(inner.insert(ssh).clone())
    }
}
