//! The settings of a connection, and russh's callbacks: the check of the host's key, and the end.
//!
//! Host keys are checked here and nowhere else. In russh a re-keying that the client begins breaks
//! busy connections: it is left to the server.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use russh::client::{self, ChannelOpenHandle, DisconnectReason, Msg};
use russh::keys::{Algorithm, PublicKey, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, Preferred, cipher};
use tokio::sync::{mpsc, watch};

use super::error::SshError;

/// The pause between keepalives. Three unanswered ones end the connection: fifty round trips of a
/// far link. Whatever the host sends counts as an answer; while more is sent than a slow link
/// takes, the host's window adjustments do.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// The end of a connection whose socket takes no more bytes: no keepalive runs while a write is
/// stuck.
const INACTIVITY: Duration = Duration::from_secs(25);
/// russh refills a window at its half, so that it needs twice what OpenSSH needs.
const WINDOW: u32 = 8 << 20;
/// As OpenSSH's for a terminal: this much may still arrive after Ctrl-C.
const GATED_WINDOW: u32 = 1 << 20;

/// The end of a connection, to be waited for.
#[derive(Clone)]
pub(super) struct End(watch::Receiver<Option<String>>);

impl End {
    /// Waits for the end; why it came.
    pub(super) async fn reason(&self) -> String {
        match self.0.clone().wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the connection was closed".to_owned(),
        }
    }

    /// Whether it has come.
    pub(super) fn has_come(&self) -> bool {
        self.0.borrow().is_some() || self.0.has_changed().is_err()
    }
}

/// The channels that a host may open, and their receiver. Any others are refused.
pub(super) enum Accepts {
    /// For connections to a port that was asked for there.
    Ports(mpsc::UnboundedSender<Channel<Msg>>),
    /// For programs there that ask the agent of this computer.
    Agent(mpsc::UnboundedSender<Channel<Msg>>),
}

/// russh's callbacks for one connection.
pub(super) struct Peer {
    host_key: PublicKey,
    ended: watch::Sender<Option<String>>,
    accepts: Option<Accepts>,
}

impl Peer {
    pub(super) fn new(host_key: PublicKey, accepts: Option<Accepts>) -> (Self, End) {
        let (ended, end) = watch::channel(None);
        let peer = Self {
            host_key,
            ended,
            accepts,
        };
        (peer, End(end))
    }
}

impl client::Handler for Peer {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        offered: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        // Comments differ; the key itself must not.
        Ok(match offered {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                key.key_data() == self.host_key.key_data()
            }
            PublicKeyOrCertificate::Certificate(_) => false,
        })
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        channel: Channel<Msg>,
        _address: &str,
        _port: u32,
        _from: &str,
        _by: u32,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        if let Some(Accepts::Ports(receiver)) = &self.accepts {
            accept(channel, reply, receiver).await;
        }
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        if let Some(Accepts::Agent(receiver)) = &self.accepts {
            accept(channel, reply, receiver).await;
        }
        Ok(())
    }

    async fn disconnected(
        &mut self,
        reason: DisconnectReason<russh::Error>,
    ) -> Result<(), russh::Error> {
        let reason = match reason {
            DisconnectReason::ReceivedDisconnect(info) => {
                format!("the host closed it: {}", info.message)
            }
            DisconnectReason::Error(
                russh::Error::KeepaliveTimeout | russh::Error::InactivityTimeout,
            ) => "no answer for 20 seconds".to_owned(),
            DisconnectReason::Error(russh::Error::Disconnect | russh::Error::HUP) => {
                "the host closed it".to_owned()
            }
            DisconnectReason::Error(error) => error.to_string(),
        };
        self.ended.send_replace(Some(reason));
        Ok(())
    }
}

/// Accepts a channel. (A reply that is dropped instead is a refusal.)
async fn accept(
    channel: Channel<Msg>,
    reply: ChannelOpenHandle,
    receiver: &mpsc::UnboundedSender<Channel<Msg>>,
) {
    reply.accept().await;
    // Fails only where the forward was dropped, and with it the connection.
    let _ = receiver.send(channel);
}

/// The settings for a connection to a host with a key of this algorithm; `gated` if it has a
/// [`super::gate::Gate`].
pub(super) fn config(host_key: Algorithm, gated: bool) -> client::Config {
    client::Config {
        // Server-side re-keying only. At 64 GiB (OpenSSH with AES-GCM) the server is always first.
        // A literal, because `Timing::new` asserts on more than 1 GiB.
        limits: russh::Limits {
            rekey_write_limit: 1 << 36,
            rekey_read_limit: 1 << 36,
            rekey_time_limit: Duration::from_hours(7 * 24),
        },
        window_size: if gated { GATED_WINDOW } else { WINDOW },
        preferred: Preferred {
            // Only the recorded key's algorithm is offered: a host has keys of several algorithms,
            // and any but the recorded one would look like a wrong key.
            key: Cow::Owned(vec![host_key]),
            // russh would begin with chacha20, which is a third slower where the CPU has AES.
            cipher: Cow::Borrowed(&[
                cipher::AES_128_GCM,
                cipher::AES_256_GCM,
                cipher::CHACHA20_POLY1305,
                cipher::AES_256_CTR,
                cipher::AES_192_CTR,
                cipher::AES_128_CTR,
            ]),
            ..Preferred::DEFAULT
        },
        keepalive_interval: Some(KEEPALIVE),
        // Where reading may be held, answers wait behind the data: the gate watches instead.
        keepalive_max: if gated { 0 } else { 3 },
        inactivity_timeout: (!gated).then_some(INACTIVITY),
        nodelay: true,
        ..client::Config::default()
    }
}

pub(super) fn handshake_error(address: SocketAddr, error: russh::Error) -> SshError {
    match error {
        russh::Error::UnknownKey
        | russh::Error::WrongServerSig
        | russh::Error::NoCommonAlgo {
            kind: AlgorithmKind::Key,
            ..
        } => SshError::WrongHostKey(address),
        russh::Error::IO(error) => SshError::Unreachable(address, error),
        other => SshError::Unreachable(address, std::io::Error::other(other.to_string())),
    }
}
