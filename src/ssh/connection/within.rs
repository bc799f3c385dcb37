//! A connection within another one: to an SSH server that a command on the host is.

use std::sync::Arc;

use super::super::error::SshError;
use super::super::gate::GatedStream;
use super::super::peer::{Accepts, Reading, config};
use super::super::unread::Carrier;
use super::{Connection, LOGIN, Ssh};

impl Ssh {
    /// Logs in to the SSH server that `command` runs on its standard streams, with the same user,
    /// key and host key. The channels that it opens are passed to `accepts`; without that they are
    /// refused. The connection ends with this one, and is held when `carrier`, which is that of this
    /// one, holds it.
    pub(in crate::ssh) async fn within(
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
        tokio::time::timeout(LOGIN, entering).await.map_err(late)?
    }
}
