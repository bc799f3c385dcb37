//! An image that is built on the host.

use std::fmt::Write as _;
use std::io;

use sha2::{Digest as _, Sha256};

use super::context::Context;
use super::dockerfile;
use crate::config::{Forwarding, Mount};

/// The recipe of an image, and the settings of its first container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    /// The folder's name.
    pub(crate) name: String,
    /// The image or Dockerfile that the build begins with.
    pub(crate) base: Base,
    /// The build's arguments.
    pub(crate) arguments: Vec<(String, String)>,
    /// The stage of the Dockerfile to stop at.
    pub(crate) target: Option<String>,
    /// Variables of all that runs in the container.
    pub(super) variables: Vec<(String, String)>,
    /// The container's user, if not the image's.
    pub(super) user: Option<String>,
    /// The commands that run once in a container that was made from it, side by side.
    pub(crate) commands: Vec<PostCreate>,
    /// The ports that are to lead into the container.
    pub(crate) forwards: Vec<Forwarding>,
    /// The folders of the drive that are to be in the container.
    pub(crate) mounts: Vec<Mount>,
    /// The keys that are there and not honoured.
    pub(crate) ignored: Vec<String>,
}

/// A command that is run once in a new container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostCreate {
    /// The command's name among several; empty for the only one.
    pub(crate) name: String,
    /// The command's text, for a shell.
    pub(crate) command: String,
}

/// The beginning of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    /// A folder with a Dockerfile.
    Context(Context),
    /// An image of a registry.
    Reference(String),
}

impl Build {
    /// The Dockerfile that adds the container's variables and user to the image `base`; none if there
    /// is nothing to add.
    pub(crate) fn addition(&self, base: &str) -> Option<String> {
        if self.variables.is_empty() && self.user.is_none() {
            return None;
        }
        let mut file = format!("FROM {base}\n");
        for (name, value) in &self.variables {
            let mut quoted = String::new();
            for c in value.chars() {
                if matches!(c, '\\' | '"' | '$') {
                    quoted.push('\\');
                }
                quoted.push(c);
            }
            let _ = writeln!(file, "ENV {name}=\"{quoted}\"");
        }
        if let Some(user) = &self.user {
            let _ = writeln!(file, "USER {user}");
        }
        Some(file)
    }

    /// The images that its Dockerfile needs, as far as they can be known before the build.
    pub(crate) fn images(&self) -> io::Result<Vec<String>> {
        let Base::Context(context) = &self.base else {
            return Ok(Vec::new());
        };
        let text = context.text()?;
        let target = self.target.as_deref();
        Ok(dockerfile::images(&text, target, &self.arguments))
    }

    /// The digest of all that makes the image, of which `context` is that of the folder.
    pub(crate) fn digest(&self, context: &str) -> String {
        let base = match &self.base {
            Base::Context(folder) => folder.dockerfile().display().to_string(),
            Base::Reference(reference) => reference.clone(),
        };
        let whole = (context, base, &self.arguments, &self.target);
        let digest = Sha256::digest(format!("{whole:?}{:?}", self.addition("")));
        hex::encode(&digest[..16])
    }
}
