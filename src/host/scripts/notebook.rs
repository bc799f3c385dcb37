//! The calls for a container's Jupyter: see `shell/host/container` and `shell/host/notebook.py`.

use std::net::SocketAddr;

use super::freeze::Thawed;
use super::{Host, call, container_input};
use crate::host::facts::{Facts, ScriptError};
use crate::ids::{ContainerName, SessionId};

impl Host {
    /// Makes `token` `session`'s token for Jupyter in a container, the main one unless it has a `name`,
    /// next to those of other attached sessions, and starts Jupyter if it does not run. None if the
    /// image has no `JupyterLab`. One that `freezes` may be frozen by a close. Does not wait until it
    /// listens. The token is sent on standard input.
    pub async fn jupyter(
        &self,
        name: Option<&ContainerName>,
        session: &SessionId,
        token: &str,
        freezes: bool,
    ) -> Result<Option<SocketAddr>, ScriptError> {
        const SCRIPT: &str = "container jupyter";
        let command = call(
            SCRIPT,
            &[
                container_input(name),
                ("XDRIVE_SESSION", &session.0),
                ("XDRIVE_FREEZES", if freezes { "yes" } else { "" }),
            ],
        );
        let output = self
            .ssh
            .run_named(SCRIPT, &command, token.as_bytes())
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        match facts.require::<String>("jupyter")?.as_str() {
            "none" => Ok(None),
            _ => facts.require("jupyter").map(Some),
        }
    }

    /// Waits until the Jupyter that was started there listens, a minute at most.
    pub async fn jupyter_listens(&self, name: Option<&ContainerName>) -> Result<(), ScriptError> {
        self.run("container listens", &[container_input(name)])
            .await
            .map(drop)
    }

    /// Has the notebook servers go on that are frozen on the drive and whose containers run, each once. None may
    /// have been started there before.
    pub async fn thaw_notebooks(&self) -> Result<Vec<Thawed>, ScriptError> {
        self.thawed("notebook.py thaw").await
    }
}
