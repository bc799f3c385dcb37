//! A file in the container that is read in order.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::host::sftp::{Attributes, Handle, Kind, MOST, Pending, Sftp, SftpError};

/// How many requests for a large file are under way: enough for what a connection's window takes.
pub(super) const WINDOW: usize = 32;

/// Why a file was not copied, or not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartError {
    #[error(transparent)]
    Server(SftpError),
    #[error(transparent)]
    Here(io::Error),
    #[error("it changed meanwhile")]
    Changed,
}

impl From<SftpError> for PartError {
    fn from(error: SftpError) -> Self {
        Self::Server(error)
    }
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        Self::Here(error)
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// A file that is read in order, while the next requests are under way.
pub(super) struct Reading<'a> {
    sftp: &'a Sftp,
    file: &'a Handle,
    /// Requests, with the place and the length of what they ask for.
    under_way: VecDeque<(Pending, u64, u64)>,
    /// Where what is to be asked for begins and ends.
    left: VecDeque<(u64, u64)>,
    /// Where more of that is to be looked for, if holes are skipped.
    unknown: Option<u64>,
    size: u64,
}

impl<'a> Reading<'a> {
    /// Reads `file`, which is to have `size` bytes, from `start` on.
    pub(super) fn new(sftp: &'a Sftp, file: &'a Handle, (start, size): (u64, u64)) -> Self {
        Self {
            sftp,
            file,
            under_way: VecDeque::new(),
            left: VecDeque::from([(start, size)]),
            unknown: None,
            size,
        }
    }

    /// Reads only what is no hole.
    pub(super) fn skip_holes(&mut self) {
        self.unknown = self.left.pop_front().map(|(start, _)| start);
    }

    /// Finds what to read behind `at`.
    async fn find(&mut self, at: u64) -> Result<(), PartError> {
        if at >= self.size {
            return Ok(());
        }
        match self.sftp.extents(self.file, at).await {
            Ok(found) => {
                self.unknown = found.last().map(|(_, end)| *end);
                let found = found.into_iter().filter(|(begin, _)| *begin < self.size);
                self.left
                    .extend(found.map(|(begin, end)| (begin, end.min(self.size))));
            }
            // Its file system does not know.
            Err(SftpError::Refused(_)) => self.left.push_back((at, self.size)),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The next piece, and where it is; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, Bytes)>, PartError> {
        while self.under_way.len() < WINDOW {
            let Some((at, end)) = self.left.pop_front() else {
                let Some(at) = self.unknown.take() else { break };
                self.find(at).await?;
                continue;
            };
            if at >= end {
                continue;
            }
            let length = (end - at).min(MOST as u64);
            let asked = u32::try_from(length).unwrap_or(u32::MAX);
            let pending = self.sftp.read(self.file, at, asked);
            self.under_way.push_back((pending, at, length));
            self.left.push_front((at + length, end));
        }
        let Some((pending, at, length)) = self.under_way.pop_front() else {
            return Ok(None);
        };
        let piece = pending.data().await?;
        if piece.len() as u64 != length {
            return Err(PartError::Changed);
        }
        Ok(Some((at, piece)))
    }
}

/// The next piece of a file whose size says nothing; none at the end.
async fn next_of_any_size(sftp: &Sftp, file: &Handle, at: u64) -> Result<Option<Bytes>, PartError> {
    let asked = u32::try_from(MOST).unwrap_or(u32::MAX);
    let piece = sftp.read(file, at, asked).data().await?;
    Ok((!piece.is_empty()).then_some(piece))
}

/// Whether the size of the file at `path` says nothing: the kernel makes its content when it is read,
/// with a size of 0 in `/proc` and that of a page in `/sys`.
fn is_of_any_size(path: &[u8], source: &Attributes) -> bool {
    source.size == 0 || path.starts_with(b"/proc/") || path.starts_with(b"/sys/")
}

/// Passes the content of the file at `path` to `write`, which may block. Its first error ends it.
pub(crate) async fn show(
    sftp: &Sftp,
    path: &[u8],
    write: fn(&[u8]) -> io::Result<()>,
) -> Result<(), PartError> {
    let found = sftp.look(path, true).await?.ok_or(SftpError::Missing)?;
    if found.attributes.kind() == Kind::Folder {
        return Err(SftpError::Refused("it is a folder".to_owned()).into());
    }
    let (file, source) = sftp.open_file(path).await?;
    let mut reading = Reading::new(sftp, &file, (0, source.size));
    let is_of_any_size = is_of_any_size(path, &source);
    let mut shown = 0;
    loop {
        let piece = if is_of_any_size {
            next_of_any_size(sftp, &file, shown).await?
        } else {
            reading.next().await?.map(|(_, piece)| piece)
        };
        let Some(piece) = piece else {
            return Ok(sftp.close(&file).await?);
        };
        shown += piece.len() as u64;
        // A reader that takes nothing for a while does not hold up the connection.
        blocking(move || write(&piece)).await?;
    }
}
