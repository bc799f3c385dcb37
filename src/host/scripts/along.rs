//! The things that a session brings along into the container: variables, and the way to the agent
//! of its computer. They are on the container's tmpfs.

use super::{Host, call};
use crate::host::container::{self, Container};
use crate::host::facts::{Facts, ScriptError};
use crate::ids::{SessionId, random_id};
use crate::ssh::SshError;

impl Host {
    /// Brings variables along, lines `export NAME='VALUE'`, for `session`'s shells and commands in
    /// `container` and for what Jupyter starts for it. They are sent on standard input. Returns the
    /// file in the container that has them.
    pub async fn bring(
        &self,
        container: &Container,
        session: &SessionId,
        variables: &str,
    ) -> Result<String, ScriptError> {
        const SCRIPT: &str = "environment bring";
        let inputs = [
            ("XDRIVE_CONTAINER", container.name.as_str()),
            ("XDRIVE_SESSION", &session.0),
        ];
        let command = call(SCRIPT, &inputs);
        let sent = self.ssh.run_named(SCRIPT, &command, variables.as_bytes());
        Facts::read(SCRIPT, &sent.await?, &[])?;
        Ok(format!("/run/xdrive/environment/{session}"))
    }

    /// Sends the words of a command ahead, if they are too long for an argument of the host's shell.
    /// Returns the file on the host that has them then.
    pub async fn send_words(&self, argv: &[String]) -> Result<Option<String>, ScriptError> {
        const SCRIPT: &str = "environment words";
        let Some(words) = container::ahead(argv) else {
            return Ok(None);
        };
        let name = random_id().map_err(|error| SshError::Input(error.into()))?;
        let command = call(SCRIPT, &[("XDRIVE_WORDS", &name)]);
        let sent = self.ssh.run_named(SCRIPT, &command, &words[..]).await?;
        Facts::read(SCRIPT, &sent, &[])?;
        Ok(Some(format!("/run/xdrive/words/{name}")))
    }

    /// The command for an SSH channel with a forwarded agent ([`crate::ssh::agent`]), and the socket
    /// in `container` that then leads there. `name` is that of the shell or session it is for.
    #[must_use]
    pub fn agent(&self, container: &Container, name: &str) -> (String, String) {
        let inputs = [
            ("XDRIVE_CONTAINER", container.name.as_str()),
            ("XDRIVE_AGENT", name),
        ];
        let socket = format!("/run/xdrive/agent.{name}");
        (call("ssh agent", &inputs), socket)
    }
}
