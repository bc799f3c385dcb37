//! The SSH agent of this computer, for what runs on a host.
//!
//! Owns an SSH connection of its own, over which the host asks the agent, and a command on the host
//! that leads programs there to it. Both are made again whenever they end, and the place where those
//! programs find it stays the same. Keys never leave the agent; programs that may use its socket on
//! the host can have it sign meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use russh::client::Msg;
use russh::keys::agent::client::AgentClient;
use russh::{Channel, ChannelMsg};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::channel::Session;
use super::connection::Ssh;
use super::peer::{Accepts, Inbox, Opened};
use super::relay::relay;
use super::start::{self, ShellError};
use super::traffic::Traffic;
use super::unread::{Carrier, UnreadQueue};

/// The pause before the agent is offered again, after that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// How many connections to the agent there may be at once; more are refused. Programs ask it one
/// thing and leave; a `git fetch --jobs` of many submodules holds a dozen.
const CONNECTIONS: usize = 64;

/// An agent that is forwarded; dropping it ends that.
#[derive(Debug)]
pub struct AgentForward(JoinHandle<()>);

/// A connection over which a host asks the agent.
struct Offered {
    ssh: Ssh,
    carrier: Arc<Carrier>,
    /// The place of whoever asks next, who is not seen before.
    _next: UnreadQueue,
    /// The command that leads programs there to the agent.
    session: Session,
    /// The channels that these programs opened.
    opened: mpsc::UnboundedReceiver<Opened>,
}

impl AgentForward {
    /// Forwards the agent that listens at `socket`, beside `ssh`; returns once programs on the host
    /// reach it. `command` listens on the host for them: it prints `xdrive: agent=` and the path of
    /// its socket, and ends with its standard input.
    pub async fn open(ssh: &Ssh, command: String, socket: PathBuf) -> Result<Self, ShellError> {
        let offered = Offered::open(ssh, &command).await?;
        Ok(Self(tokio::spawn(serve(offered, command, socket))))
    }
}

impl Drop for AgentForward {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Offered {
    async fn open(ssh: &Ssh, command: &str) -> Result<Self, ShellError> {
        let (inbox, opened) = Inbox::new(CONNECTIONS);
        let (ssh, carrier) = ssh.carrier(Some(Accepts::Agent(inbox))).await?;
        let session = start::with_agent(&ssh, command).await?;
        Ok(Self {
            ssh,
            _next: carrier.queue(),
            carrier,
            session,
            opened,
        })
    }
}

/// Answers until it is aborted.
async fn serve(mut offered: Offered, command: String, socket: PathBuf) {
    loop {
        answer_all(&mut offered, &socket).await;
        offered = loop {
            match Offered::open(&offered.ssh, &command).await {
                Ok(again) => break again,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
    }
}

/// Answers until the connection or the command ends.
async fn answer_all(offered: &mut Offered, socket: &Path) {
    let mut connections = JoinSet::new();
    loop {
        let Opened { channel, place } = tokio::select! {
            Some(opened) = offered.opened.recv() => opened,
            Some(_) = connections.join_next() => continue,
            _ = offered.ssh.wait_for_end() => return,
            message = offered.session.messages.wait() => match message {
                Some(ChannelMsg::Close) | None => return,
                Some(_) => continue,
            },
        };
        let (ssh, socket) = (offered.ssh.clone(), socket.to_owned());
        let unread = offered.carrier.queue();
        connections.spawn(async move {
            let _place = place;
            answer((&ssh, unread), channel, &socket).await;
        });
    }
}

/// Leads one connection to the agent. Without an agent here its channel is dropped, which closes it.
async fn answer((ssh, unread): (&Ssh, UnreadQueue), channel: Channel<Msg>, socket: &Path) {
    let session = ssh.accepted(channel);
    let Ok(mut agent) = AgentClient::connect_uds(socket).await else {
        return;
    };
    if let Some(binding) = ssh.agent_binding() {
        // Keys that are for certain hosts alone need it (OpenSSH's PROTOCOL.agent, "session-bind").
        // An agent that does not know it refuses, and goes on.
        let _unknown = agent.bind_session(binding, true).await;
    }
    let (reader, writer) = tokio::io::split(agent.into_inner());
    relay(reader, writer, session, (unread, &Traffic::default())).await;
}
