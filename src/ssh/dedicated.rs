//! The dedicated connection of one [`super::Shell`], whose reading can be held.

use std::sync::Arc;

use super::connection::Ssh;
use super::error::SshError;
use super::gate::Gate;
use super::start::Begun;

/// A connection for one [`super::Shell`].
#[derive(Debug)]
pub struct DedicatedConnection {
    /// The connection itself.
    pub ssh: Ssh,
    /// The connection that it was opened beside, whose end also ends this one: over a held
    /// connection, a silent host looks like one that is held back.
    pub beside: Ssh,
    /// Shut while the shell's output waits to be written.
    pub gate: Arc<Gate>,
    /// A shell that has begun on it.
    pub begun: Option<Begun>,
}

impl DedicatedConnection {
    /// Connects beside `ssh`; possible early, while the host still works on other things.
    pub async fn open(ssh: &Ssh) -> Result<Self, SshError> {
        Self::with_gate(ssh, Arc::default()).await
    }

    /// As [`DedicatedConnection::open`], with the gate of a connection that was lost, and whatever
    /// still holds that.
    pub(super) async fn with_gate(ssh: &Ssh, gate: Arc<Gate>) -> Result<Self, SshError> {
        Ok(Self {
            ssh: ssh.gated_sibling(Arc::clone(&gate)).await?,
            beside: ssh.clone(),
            gate,
            begun: None,
        })
    }
}
