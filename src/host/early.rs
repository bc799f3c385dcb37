//! A line that is opened beside the first connection to a host, when nothing is known of the host yet
//! but where it is; and a shell on it, which the host lets begin once its client is attached.
//!
//! All of it is a guess: where it does not come true, the line is opened as any other, later.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::scripts::terminal;
use crate::ssh::connection::{Ssh, SshError, Target};
use crate::ssh::dedicated::{Gate, Line};
use crate::ssh::shell::Begun;

/// A line on its way. Dropped, it is given up.
#[derive(Debug)]
pub struct Early {
    line: oneshot::Receiver<(Ssh, Arc<Gate>)>,
    shell: JoinHandle<Option<Begun>>,
}

impl Early {
    /// Sets out for `target` with `key`. In the terminal that the host chooses for `session`, once
    /// that has arrived, runs `command`, if there is one.
    #[must_use]
    pub fn begin(target: &Target, key: &str, session: &str, command: Option<&str>) -> Self {
        let (target, key) = (target.clone(), key.to_owned());
        let shell = command.map(|command| terminal(session, command));
        let (opened, line) = oneshot::channel();
        let shell = tokio::spawn(async move {
            let gate = Arc::default();
            let ssh = Ssh::gated(&target, &key, Some(Arc::clone(&gate)))
                .await
                .ok()?;
            // Whoever does not want it any more drops this, too.
            let _ = opened.send((ssh.clone(), gate));
            Begun::waiting(&ssh, &shell?).await.ok().flatten()
        });
        Self { line, shell }
    }

    /// The line beside `ssh`, with its shell if `is_wanted`.
    pub async fn beside(mut self, ssh: &Ssh, is_wanted: bool) -> Result<Line, SshError> {
        let opened = (&mut self.line).await.ok();
        let Some((line, gate)) = opened.filter(|(line, _)| !line.has_ended()) else {
            return Line::open(ssh).await;
        };
        let begun = if is_wanted {
            (&mut self.shell).await.ok().flatten()
        } else {
            None
        };
        Ok(Line {
            ssh: line,
            beside: ssh.clone(),
            gate,
            begun,
        })
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.shell.abort();
    }
}
