//! Early connections, opened beside the first one to a host when only its address is known: the
//! dedicated one, with a shell on it that the host starts once its client is attached; and one for
//! files.
//!
//! They are guesses: if one is wrong, the connection is opened later, like any other.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::scripts::terminal;
use crate::ids::SessionId;
use crate::ssh::gate::Gate;
use crate::ssh::start::Begun;
use crate::ssh::{DedicatedConnection, Ssh, SshError, Target};

/// A dedicated connection that is being opened; dropping it cancels that.
#[derive(Debug)]
pub struct EarlyConnection {
    connection: oneshot::Receiver<(Ssh, Arc<Gate>)>,
    shell: JoinHandle<Option<Begun>>,
}

impl EarlyConnection {
    /// Begins to connect to `target` with `key`; then runs `command`, if there is one, in the
    /// terminal that the host chooses for `session` once the session has arrived.
    #[must_use]
    pub fn begin(target: &Target, key: &str, session: &SessionId, command: Option<&str>) -> Self {
        let (target, key) = (target.clone(), key.to_owned());
        let shell = command.map(|command| terminal(&session.0, command, false));
        let (opened, connection) = oneshot::channel();
        let shell = tokio::spawn(async move {
            let gate = Arc::default();
            let ssh = Ssh::gated(&target, &key, Some(Arc::clone(&gate)))
                .await
                .ok()?;
            // Fails only where this connection was given up, and the task with it.
            let _ = opened.send((ssh.clone(), gate));
            Begun::waiting(&ssh, &shell?).await.ok().flatten()
        });
        Self { connection, shell }
    }

    /// The connection beside `ssh`, with its shell if that `is_wanted`.
    pub async fn beside(
        mut self,
        ssh: &Ssh,
        is_wanted: bool,
    ) -> Result<DedicatedConnection, SshError> {
        let opened = (&mut self.connection).await.ok();
        let Some((own, gate)) = opened.filter(|(own, _)| !own.has_ended()) else {
            return DedicatedConnection::open(ssh).await;
        };
        let begun = if is_wanted {
            (&mut self.shell).await.ok().flatten()
        } else {
            None
        };
        Ok(DedicatedConnection {
            ssh: own,
            beside: ssh.clone(),
            gate,
            begun,
        })
    }
}

impl Drop for EarlyConnection {
    fn drop(&mut self) {
        self.shell.abort();
    }
}

/// A connection for files, which is being opened at the same time as the first one to its host.
#[derive(Debug)]
pub struct EarlySibling(JoinHandle<Option<Ssh>>);

impl EarlySibling {
    /// Begins to connect to `target` with `key`.
    #[must_use]
    pub fn begin(target: &Target, key: &str) -> Self {
        let (target, key) = (target.clone(), key.to_owned());
        Self(tokio::spawn(async move {
            Ssh::connect(&target, &key).await.ok()
        }))
    }

    /// The connection beside `ssh`; another one if there is none, or it has failed or ended since.
    pub async fn beside(early: Option<Self>, ssh: &Ssh) -> Result<Ssh, SshError> {
        if let Some(mut early) = early
            && let Ok(Some(own)) = (&mut early.0).await
            && !own.has_ended()
        {
            return Ok(own);
        }
        ssh.sibling().await
    }
}

impl Drop for EarlySibling {
    fn drop(&mut self) {
        self.0.abort();
    }
}
