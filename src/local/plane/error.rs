//! Why the plane failed: the kinds that EC2 answers in different ways, and all others.

use std::path::PathBuf;

/// Why the plane failed.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The machine has the volume open or mounted.
    #[error("the instance still uses the volume")]
    Busy,
    /// The file system of the state directory is full.
    #[error("no space left in {0}")]
    Full(PathBuf),
    /// The machine is not there any more.
    #[error("the instance is not running")]
    Gone,
    /// A prerequisite is missing on this computer: which one, and what to do.
    #[error("{0}")]
    Missing(String),
    /// Any other failure, such as an error of the operating system.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}
