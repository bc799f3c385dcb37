//! The settings of a connection, and russh's callbacks: the check of the host's key, and the end.
//!
//! Host keys are checked here and nowhere else. In russh a re-keying that the client begins breaks
//! busy connections: it is left to the server.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, ChannelOpenHandle, DisconnectReason, Msg};
use russh::keys::{Algorithm, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, ChannelOpenFailure, Preferred, cipher};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::error::SshError;
use super::gate::Gate;
use super::key::PublicHostKey;

/// The pause between keepalives. Three unanswered ones end a connection that is never held: fifty
/// round trips of a far link. Whatever the host sends counts as an answer; while more is sent than a
/// slow link takes, the host's window adjustments do.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// The end of a connection whose socket takes no more bytes: no keepalive runs while a write is
/// stuck.
const INACTIVITY: Duration = Duration::from_secs(25);
/// russh refills a window at its half, so that it needs twice what OpenSSH needs.
const WINDOW: u32 = 8 << 20;
/// The data of a packet that the host sends at most: russh takes 64 KiB. A host has the less to do for
/// the same bytes, the larger its packets are.
const PACKET: u32 = 63 << 10;
/// As OpenSSH's for a terminal: this much may still arrive after Ctrl-C.
const SHELL_WINDOW: u32 = 1 << 20;

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
#[derive(Clone)]
pub(super) enum Accepts {
    /// For connections to a port that was asked for there.
    Ports(Inbox),
    /// For programs there that ask the agent of this computer.
    Agent(Inbox),
}

/// The receiver of channels that a host opens: so many at a time.
#[derive(Clone)]
pub(super) struct Inbox {
    opened: mpsc::UnboundedSender<Opened>,
    places: Arc<Semaphore>,
}

/// A channel that a host opened, and its place among those that may be open.
pub(super) struct Opened {
    pub(super) channel: Channel<Msg>,
    pub(super) place: OwnedSemaphorePermit,
}

impl Inbox {
    /// Creates an inbox for `places` connections at a time, and the receiver of those that open.
    pub(super) fn new(places: usize) -> (Self, mpsc::UnboundedReceiver<Opened>) {
        let (opened, receiver) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(places));
        (Self { opened, places }, receiver)
    }

    /// Accepts a channel if there is a place for it, and somebody to receive it. (A reply that is
    /// dropped instead is a refusal.)
    async fn accept(&self, channel: Channel<Msg>, reply: ChannelOpenHandle) {
        if self.opened.is_closed() {
            let prohibited = ChannelOpenFailure::AdministrativelyProhibited;
            return reply.reject(prohibited).await;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return reply.reject(ChannelOpenFailure::ResourceShortage).await;
        };
        reply.accept().await;
        // Fails only where the receiver was closed just now: the connection itself ends soon.
        let _ = self.opened.send(Opened { channel, place });
    }
}

/// russh's callbacks for one connection.
pub(super) struct Peer {
    host_key: PublicHostKey,
    ended: watch::Sender<Option<String>>,
    accepts: Option<Accepts>,
}

impl Peer {
    pub(super) fn new(host_key: PublicHostKey, accepts: Option<Accepts>) -> (Self, End) {
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
                key.key_data() == self.host_key.key().key_data()
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
        if let Some(Accepts::Ports(inbox)) = &self.accepts {
            inbox.accept(channel, reply).await;
        }
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        if let Some(Accepts::Agent(inbox)) = &self.accepts {
            inbox.accept(channel, reply).await;
        }
        Ok(())
    }

    // russh accepts what these do not refuse. A reply that is dropped is a refusal.

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _host: &str,
        _port: u32,
        _from: &str,
        _by: u32,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _channel: Channel<Msg>,
        _from: &str,
        _by: u32,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        Ok(())
    }

    async fn disconnected(
        &mut self,
        reason: DisconnectReason<russh::Error>,
    ) -> Result<(), russh::Error> {
        let reason = match reason {
            DisconnectReason::ReceivedDisconnect(info) => {
                format!("the host closed it: {}", printable(&info.message))
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

/// The longest that a host's reason for the end is printed, in characters.
const REASON: usize = 200;

/// A host's words as they may be printed: it may send any, before its key is known too.
fn printable(words: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    words.chars().take(REASON).map(shown).collect()
}

/// How a connection is read.
#[derive(Debug, Clone)]
pub(super) enum Reading {
    /// Without a pause.
    Steady,
    /// A connection of a single shell or command: held while its output is not taken.
    Shell(Arc<Gate>),
    /// A connection that carries forwarded ones: held while their readers catch up.
    Carrier(Arc<Gate>),
    /// A connection inside a carrier: whatever holds the carrier keeps this one's bytes away too.
    Within,
}

impl Reading {
    /// The gate that holds the connection, if any does.
    pub(super) fn gate(self) -> Option<Arc<Gate>> {
        match self {
            Self::Shell(gate) | Self::Carrier(gate) => Some(gate),
            Self::Steady | Self::Within => None,
        }
    }
}

/// The settings for a connection to a host with a key of this algorithm, which is read like this.
pub(super) fn config(host_key: Algorithm, reading: &Reading) -> client::Config {
    let is_steady = matches!(reading, Reading::Steady);
    let is_shell = matches!(reading, Reading::Shell(_));
    client::Config {
        // Server-side re-keying only. At 64 GiB (OpenSSH with AES-GCM) the server is always first.
        // A literal, because `Timing::new` asserts on more than 1 GiB.
        limits: russh::Limits {
            rekey_write_limit: 1 << 36,
            rekey_read_limit: 1 << 36,
            rekey_time_limit: Duration::from_hours(7 * 24),
        },
        window_size: if is_shell { SHELL_WINDOW } else { WINDOW },
        maximum_packet_size: PACKET,
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
        // Where reading may be held, answers wait behind the data: the gated stream watches instead.
        keepalive_max: if is_steady { 3 } else { 0 },
        inactivity_timeout: is_steady.then_some(INACTIVITY),
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
