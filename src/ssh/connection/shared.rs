//! The host of a connection, and what connections beside one another have in common.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use russh::keys::PrivateKey;

use super::super::error::SshError;
use super::super::key::PublicHostKey;
use super::super::proxy::Proxy;
use super::super::received::Received;
use super::super::unread::Unread;

/// A host: where to connect, and the key to expect there.
#[derive(Debug, Clone)]
pub struct Target {
    /// Address and port.
    pub address: SocketAddr,
    /// The user to log in as.
    pub user: String,
    /// The host's public key, in OpenSSH's form (`ssh-ed25519 AAAA…`), from the instance's tag.
    pub host_key: String,
    /// The proxy command, if the connection goes through one.
    pub proxy: Option<Proxy>,
    /// The count of what comes over all connections there.
    pub received: Received,
}

#[derive(Clone)]
pub(super) struct Shared {
    pub(super) key: Arc<PrivateKey>,
    pub(super) host_key: Expected,
    pub(super) unread: Unread,
}

/// The host key that the next connection expects. It changes once: from the host's launch key to its
/// own, made over a connection that the former has verified.
#[derive(Clone)]
pub(super) struct Expected(Arc<RwLock<PublicHostKey>>);

impl Expected {
    pub(super) fn from_target(target: &Target) -> Result<Self, SshError> {
        let key = target.host_key.parse();
        let key = key.map_err(|_| SshError::BadKey("the host key recorded for this instance"))?;
        Ok(Self(Arc::new(RwLock::new(key))))
    }

    pub(super) fn now(&self) -> PublicHostKey {
        let key = self.0.read().unwrap_or_else(PoisonError::into_inner);
        key.clone()
    }

    pub(super) fn set(&self, own: PublicHostKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = own;
    }
}
