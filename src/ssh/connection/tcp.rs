//! TCP connections inside one SSH connection: opened from the host, and accepted there.

use std::net::SocketAddr;

use russh::Channel;
use russh::client::Msg;

use super::super::channel::{Sender, Session};
use super::super::error::SshError;
use super::Ssh;

impl Ssh {
    /// Opens a TCP connection from the host to `to`, on behalf of `from`.
    pub(crate) async fn open_tcp(
        &self,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<Session, SshError> {
        self.open_host(&to.ip().to_string(), to.port(), from).await
    }

    /// As [`Ssh::open_tcp`], to a host that is named as the host knows it.
    pub(crate) async fn open_host(
        &self,
        host: &str,
        port: u16,
        from: SocketAddr,
    ) -> Result<Session, SshError> {
        let (to, by) = (u32::from(port), u32::from(from.port()));
        let from = from.ip().to_string();
        let handle = &self.connection.handle;
        let opened = handle.channel_open_direct_tcpip(host, to, from, by).await;
        self.session(opened, &format!("a connection to {host}:{port}"))
            .await
    }

    /// Listens on the host; the port, if the host was to choose one (0). A busy port is
    /// [`SshError::Refused`].
    pub(crate) async fn listen(&self, bind: &str, port: u16) -> Result<u16, SshError> {
        let asked = self
            .connection
            .handle
            .tcpip_forward(bind, u32::from(port))
            .await;
        match asked {
            Ok(port) => Ok(u16::try_from(port).unwrap_or_default()),
            Err(russh::Error::RequestDenied) => {
                let what = format!("to listen on port {port}");
                Err(SshError::Refused(self.address(), what))
            }
            Err(_) => Err(self.why_ended().await),
        }
    }

    /// The two halves of a channel of this connection.
    pub(crate) fn accepted(&self, channel: Channel<Msg>) -> Session {
        let (messages, half) = channel.split();
        let sender = Sender::new(half, self.connection.end.clone());
        Session { messages, sender }
    }
}
