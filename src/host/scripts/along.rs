//! The things that a session brings along into the container: variables, and the way to the agent
//! of its computer. They are on the container's tmpfs.

use super::{Host, call};
use crate::host::container::{self, Container};
use crate::host::facts::{Facts, ScriptError};
use crate::ids::{SessionId, random_id};
use crate::ssh::SshError;

/// The variables that are in a container.
#[derive(Debug)]
pub struct Brought {
    /// The file in it that has them.
    pub file: String,
    /// Why programs there cannot use the role of the host's instance, if they should.
    pub no_role: Option<String>,
}

impl Host {
    /// Brings variables along, lines `export NAME='VALUE'`, for `session`'s shells and commands in
    /// `container` and for what Jupyter starts for it. They are sent on standard input. With `role`
    /// programs there may also use the role of the host's instance.
    pub async fn bring(
        &self,
        container: &Container,
        session: &SessionId,
        variables: &str,
        role: bool,
    ) -> Result<Brought, ScriptError> {
        const SCRIPT: &str = "environment bring";
        let inputs = [
            ("XDRIVE_CONTAINER", container.name.as_str()),
            ("XDRIVE_SESSION", &session.0),
            ("XDRIVE_ROLE", if role { "yes" } else { "" }),
        ];
        let command = call(SCRIPT, &inputs);
        let sent = self.ssh.run_named(SCRIPT, &command, variables.as_bytes());
        let facts = Facts::read(SCRIPT, &sent.await?, &[])?;
        Ok(Brought {
            file: format!("/run/xdrive/environment/{session}"),
            no_role: facts.optional("no_role")?,
        })
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
