//! Why something of a file system cannot be read.

/// The reading that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::asleep) enum Error {
    #[error("no such file or folder")]
    Missing,
    /// The bytes cannot be had: nothing more can be read.
    #[error("{0}")]
    Disk(String),
    /// The file system is whole, and uses this.
    #[error("it uses {0}, which xdrive does not read while a drive is asleep")]
    Unsupported(String),
    /// The file system contradicts itself here.
    #[error("its file system is damaged: {0}")]
    Damaged(String),
    /// More than is read of such a thing.
    #[error("{0}")]
    TooLarge(String),
}

impl Error {
    pub(super) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged(why.into())
    }
}
