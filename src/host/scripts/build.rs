//! Builds of images on the host.

use tokio::io::AsyncRead;

use super::{Host, call};
use crate::host::container::Container;
use crate::host::facts::{Facts, ScriptError};

/// A request to build an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOrder {
    /// The image's tag.
    pub tag: String,
    /// The path of the Dockerfile in the context.
    pub dockerfile: String,
    /// The stage to stop at.
    pub target: Option<String>,
    /// The build's arguments. A value has one line.
    pub arguments: Vec<(String, String)>,
}

impl Host {
    /// Whether the drive has the image `tag`.
    pub async fn knows(&self, tag: &str) -> Result<bool, ScriptError> {
        let facts = self.run("build known", &[("XDRIVE_TAG", tag)]).await?;
        Ok(facts.yes("known"))
    }

    /// Builds an image from `context`, a tar; calls `on_line` with each line that the build prints.
    /// [`ScriptError::NotBuilt`] if that fails.
    pub async fn build(
        &self,
        order: &BuildOrder,
        context: impl AsyncRead + Unpin + Send,
        on_line: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), ScriptError> {
        let arguments = order.arguments.iter();
        let arguments: Vec<String> = arguments
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let inputs = [
            ("XDRIVE_TAG", order.tag.as_str()),
            ("XDRIVE_DOCKERFILE", &order.dockerfile),
            ("XDRIVE_TARGET", order.target.as_deref().unwrap_or_default()),
            ("XDRIVE_ARGUMENTS", &arguments.join("\n")),
        ];
        self.run_shown("build image", &inputs, context, on_line)
            .await
    }

    /// Runs `command` by the shell of `container`, as its user, in `/work`; likewise.
    pub async fn finish(
        &self,
        container: &Container,
        command: &str,
        on_line: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), ScriptError> {
        let inputs = [
            ("XDRIVE_CONTAINER", container.name.as_str()),
            ("XDRIVE_COMMAND", command),
        ];
        self.run_shown("build finish", &inputs, &b""[..], on_line)
            .await
    }

    async fn run_shown(
        &self,
        script: &'static str,
        inputs: &[(&str, &str)],
        stdin: impl AsyncRead + Unpin + Send,
        on_line: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), ScriptError> {
        let command = call(script, inputs);
        let mut on_fact = |fact: &str| {
            if let Some(line) = fact.strip_prefix("line=") {
                on_line(line);
            }
        };
        let output = self
            .ssh
            .run_with_facts(script, &command, stdin, &mut on_fact)
            .await?;
        Facts::read(script, &output, &[]).map(drop)
    }
}
