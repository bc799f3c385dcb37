//! The flags that say what the container has of the host.

use clap::Args;

use crate::config;
use crate::config::Mount;

/// The section of these flags in the help.
const CONTAINER: &str = "The container";

/// What the container has of the host.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = CONTAINER)]
pub struct Places {
    /// Show a folder of the drive elsewhere in the container, too.
    ///
    /// HOST is a path on the drive, below /work, and made if it is missing; CONTAINER is where it is
    /// in the container as well, in place of what the image has there. With :ro it cannot be written
    /// through that. It may be given several times; the container is made again from its own layer,
    /// and keeps its mounts until others are given.
    #[arg(
        long = "mount",
        value_name = "HOST:CONTAINER[:ro]",
        hide_short_help = true
    )]
    mounts: Vec<Mount>,

    /// Take the container's mounts away; what is in them stays.
    #[arg(long, conflicts_with = "mounts", hide_short_help = true)]
    no_mounts: bool,

    /// Let the container use the instance's Docker.
    ///
    /// Its socket is /var/run/docker.sock there; a client for it is the image's business. Whoever
    /// reaches it is root on the instance, and so has its role and all of the drive. Containers that
    /// are started by it are stopped when the drive is saved, and are on it the next time. It stays
    /// so until --no-docker.
    #[arg(long, overrides_with = "no_docker", hide_short_help = true)]
    docker: bool,

    /// Take Docker's socket away from the container again.
    #[arg(long, overrides_with = "docker", hide_short_help = true)]
    no_docker: bool,
}

impl From<Places> for config::Places {
    fn from(typed: Places) -> Self {
        Self {
            mounts: (typed.no_mounts || !typed.mounts.is_empty()).then_some(typed.mounts),
            docker: (typed.docker || typed.no_docker).then_some(typed.docker),
        }
    }
}
