//! Connections beside another one, to the same host, and within one: to an SSH server that a command
//! on the host is.
//!
//! Where the other one was verified by the host's launch key, another client may have had the host make
//! its own since: then that connection is asked for it, which is the host's.

use std::sync::Arc;

use tokio::time::timeout;

use super::super::error::SshError;
use super::super::gate::GatedStream;
use super::super::key::PublicHostKey;
use super::super::peer::{Accepts, Reading, config};
use super::super::unread::Carrier;
use super::{Connection, LOGIN, Ssh};

/// Prints the public half of the host's own key, which `shell/host/host_key` leaves there.
const OWN_KEY: &str = "cat /etc/ssh/xdrive_host_ed25519.pub";

impl Ssh {
    /// Connects to the same host.
    pub(super) async fn connect_again(
        &self,
        reading: Reading,
        accepts: Option<Accepts>,
    ) -> Result<Self, SshError> {
        let Connection { target, shared, .. } = &*self.connection;
        let expected = shared.host_key.now();
        let opened = Self::open(target, shared.clone(), reading.clone(), accepts.clone()).await;
        match opened {
            Err(SshError::WrongHostKey(_)) if self.learns_own_key_after(&expected).await => {
                Self::open(target, shared.clone(), reading, accepts).await
            }
            opened => opened,
        }
    }

    /// Logs in to the SSH server that `command` runs on its standard streams, with the same user,
    /// key and host key. The channels that it opens are passed to `accepts`; without that they are
    /// refused. The connection ends with this one, and is held when `carrier`, which is that of this
    /// one, holds it.
    pub(crate) async fn within(
        &self,
        command: &str,
        carrier: &Carrier,
        accepts: Option<Accepts>,
    ) -> Result<Self, SshError> {
        let expected = self.host_key();
        match self.enter(command, carrier, accepts.clone()).await {
            Err(SshError::WrongHostKey(_)) if self.learns_own_key_after(&expected).await => {
                self.enter(command, carrier, accepts).await
            }
            entered => entered,
        }
    }

    async fn enter(
        &self,
        command: &str,
        carrier: &Carrier,
        accepts: Option<Accepts>,
    ) -> Result<Self, SshError> {
        let Connection {
            handle,
            target,
            shared,
            ..
        } = &*self.connection;
        let host_key = shared.host_key.now();
        let config = Arc::new(config(host_key.key().algorithm(), &Reading::Within));
        let entering = async {
            let Ok(channel) = handle.channel_open_session().await else {
                return Err(self.why_ended().await);
            };
            if channel.exec(false, command).await.is_err() {
                return Err(self.why_ended().await);
            }
            let stream = GatedStream::within(channel.into_stream(), carrier.gate());
            Self::login(target, shared.clone(), config, stream, host_key, accepts).await
        };
        let late = |_| SshError::Unreachable(target.address, std::io::ErrorKind::TimedOut.into());
        timeout(LOGIN, entering).await.map_err(late)?
    }

    /// Whether the host, which did not have the key `refused`, is known by its own key now: another
    /// connection has learned that meanwhile, or the host, known by its launch key until now, says it.
    async fn learns_own_key_after(&self, refused: &PublicHostKey) -> bool {
        let expected = &self.connection.shared.host_key;
        if expected.now() != *refused {
            return true;
        }
        if !refused.is_of_launch() {
            return false;
        }
        if let Ok(Ok(answer)) = timeout(LOGIN, self.run(OWN_KEY, b"")).await
            && let Ok(own) = String::from_utf8_lossy(&answer.stdout).trim_end().parse()
            && PublicHostKey::is_own(&own)
        {
            expected.set(own);
        }
        expected.now() != *refused
    }
}
