//! Why the container cannot be started, as failures of the session.

use anyhow::anyhow;

use crate::failure::{Exit, Failure};
use crate::host::facts::ScriptError;

/// A host's error about the container as a failure of the session.
pub(super) fn from_script_error(error: ScriptError) -> Failure {
    match error {
        ScriptError::NoGpu(words) => no_gpu(last_first(&words)),
        ScriptError::Image(words) => Failure::new(Exit::Unavailable, last_first(&words)).hint(
            "--image names another one: an archive that `docker save` wrote, or a reference to a \
             registry that the instance reaches",
        ),
        ScriptError::NotOnDrive(words) => Failure::new(Exit::Unavailable, last_first(&words)).hint(
            "nothing is lost: the same command again takes another instance; leave the settings there \
             that xdrive gives Docker in /etc/docker/daemon.json, or name another image with --ami",
        ),
        ScriptError::Mount(words) => Failure::new(Exit::Unavailable, last_first(&words)).hint(
            "--mount names another folder, and --no-mounts takes all of the container's mounts away",
        ),
        ScriptError::Full(words) => Failure::new(Exit::Unavailable, last_first(&words)).hint(
            "--size, with more GiB than the drive has, makes it larger; it never shrinks",
        ),
        other => anyhow::Error::new(other)
            .context("the container cannot be started")
            .into(),
    }
}

/// The failure of a GPU that cannot be used.
pub(super) fn no_gpu(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Unavailable, error).hint(
        "nothing is lost: the same command again takes another instance; --type names another type, \
         --ami an image with NVIDIA's driver and container toolkit",
    )
}

/// A program's output as an error: its last line first, the lines before it as causes.
fn last_first(words: &str) -> anyhow::Error {
    let mut lines = words.lines().map(str::to_owned);
    let mut error = anyhow!(lines.next().unwrap_or_default());
    for line in lines {
        error = error.context(line);
    }
    error
}
