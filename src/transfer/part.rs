//! Large files, in pieces: the part that was begun is taken up where it stopped.

mod names;
mod reading;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

use super::local;
use super::paths::{joined, split};
use super::state::{State, Stop};
use crate::host::sftp::{Attributes, HASHED, Handle, Kind, MOST, Pending, Sftp, SftpError};

use names::{own_name, part_name};
use reading::{Reading, WINDOW, blocking};

pub(super) use names::is_part;
pub(crate) use reading::{PartError, show};

impl State {
    /// The large file at `path` was copied to `to`, with so many bytes, or was not.
    pub(super) fn large_ended(
        &self,
        path: &[u8],
        to: Vec<u8>,
        copied: Result<u64, PartError>,
    ) -> Result<(), Stop> {
        match copied {
            Ok(bytes) => self.finish(to, bytes),
            Err(PartError::Server(error)) => self.failed(path, error)?,
            Err(PartError::Here(error)) => self.problem(path, &error),
            Err(error @ PartError::Changed) => self.problem(path, &error),
        }
        Ok(())
    }
}

/// Whether the file `there`, in the container, and the file `here` begin with the same `length`
/// bytes. False without any, or with more than `source` has.
async fn is_beginning(
    sftp: &Sftp,
    (there, here): (&Handle, &Arc<File>),
    length: u64,
    source: &Attributes,
) -> Result<bool, PartError> {
    if length == 0 || length > source.size {
        return Ok(false);
    }
    let mut at = 0;
    while at < length {
        let some = HASHED.min(length - at);
        let file = Arc::clone(here);
        let (there, here) = tokio::join!(
            sftp.hash(there, at, some),
            blocking(move || local::hash(&file, at, some)),
        );
        if there? != here? {
            return Ok(false);
        }
        at += some;
    }
    Ok(true)
}

/// Fails where a file that was read is not as it was when it was opened, `now` that it is read. One
/// that has grown is: what was added comes after that.
fn demand_unchanged(source: &Attributes, now: &Attributes) -> Result<(), PartError> {
    if now.size > source.size || (now.size, now.changed) == (source.size, source.changed) {
        return Ok(());
    }
    Err(PartError::Changed)
}

/// Copies the file `from` to `to` in the container. Returns how many bytes it has.
pub(super) async fn send(
    sftp: &Sftp,
    from: &Path,
    to: &[u8],
    state: &State,
) -> Result<u64, PartError> {
    let path = from.to_owned();
    let (file, source) = blocking(move || local::open(&path)).await?;
    let file = Arc::new(file);
    let (folder, _) = split(to);
    let mut part = joined(folder, part_name(to, &source, None).as_bytes());
    let (handle, length) = match sftp.open_part(&part).await {
        // Somebody else has it, or a connection that is not given up yet.
        Err(SftpError::Refused(_)) => {
            part = joined(folder, own_name()?.as_bytes());
            sftp.open_part(&part).await?
        }
        opened => opened?,
    };
    let mut counted = 0;
    let sent = async {
        let start = send_start(sftp, &handle, &file, &source, length).await?;
        state.progress.add(start);
        counted += start;
        send_rest(sftp, &handle, &file, &source, start, |bytes| {
            state.progress.add(bytes);
            counted += bytes;
        })
        .await?;
        sftp.finish(&handle, &part, to, &source).await?;
        Ok::<(), PartError>(())
    };
    let sent = sent.await;
    state.progress.take(counted);
    match &sent {
        Ok(()) => sftp.close(&handle).await?,
        // It is taken up over another connection.
        Err(PartError::Server(SftpError::Lost(_))) => {}
        Err(_) => {
            // What failed is what counts.
            let _ = sftp.close(&handle).await;
            let _ = sftp.remove(&part).await;
        }
    }
    sent.map(|()| source.size)
}

/// Where to go on: at the end of the part, if that is how the source begins; else at the beginning.
async fn send_start(
    sftp: &Sftp,
    part: &Handle,
    from: &Arc<File>,
    source: &Attributes,
    length: u64,
) -> Result<u64, PartError> {
    if is_beginning(sftp, (part, from), length, source).await? {
        return Ok(length);
    }
    if length > 0 {
        sftp.truncate(part, 0).await?;
    }
    Ok(0)
}

/// Sends what the part lacks. A hole is not sent: the part has it there, too.
async fn send_rest(
    sftp: &Sftp,
    part: &Handle,
    from: &Arc<File>,
    source: &Attributes,
    start: u64,
    mut on_sent: impl FnMut(u64),
) -> Result<(), PartError> {
    let (pieces, queue) = mpsc::channel(WINDOW / 4);
    let (file, size) = (Arc::clone(from), source.size);
    let reading = blocking(move || {
        let mut at = start;
        while let Some((begin, end)) = local::data(&file, at, size)? {
            at = begin;
            while at < end {
                let most = usize::try_from(end - at).unwrap_or(MOST).min(MOST);
                let mut piece = BytesMut::zeroed(most);
                if local::read_at(&file, &mut piece, at)? < most {
                    // Shorter than it was, as its attributes show.
                    return Ok(());
                }
                // The copy has ended.
                if pieces.blocking_send((at, piece.freeze())).is_err() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                at += most as u64;
            }
        }
        Ok(())
    });
    let writing = write_pieces(sftp, part, queue, start, &mut on_sent);
    let (written, read) = tokio::join!(writing, reading);
    let end = written?;
    read?;
    let file = Arc::clone(from);
    let now = blocking(move || Ok(local::attributes(&file.metadata()?))).await?;
    demand_unchanged(source, &now)?;
    if end < source.size {
        sftp.truncate(part, source.size).await?;
        on_sent(source.size - end);
    }
    Ok(())
}

/// Writes what comes from the queue, each piece at its place; where the last one ends.
async fn write_pieces(
    sftp: &Sftp,
    part: &Handle,
    mut queue: mpsc::Receiver<(u64, Bytes)>,
    start: u64,
    on_sent: &mut impl FnMut(u64),
) -> Result<u64, SftpError> {
    let mut under_way = VecDeque::<(Pending, u64)>::new();
    let mut written = start;
    loop {
        let piece = queue.recv().await;
        let is_end = piece.is_none();
        if let Some((at, piece)) = piece {
            let end = at + piece.len() as u64;
            under_way.push_back((sftp.write(part, at, piece), end));
        }
        while under_way.len() >= WINDOW || is_end {
            let Some((pending, end)) = under_way.pop_front() else {
                return Ok(written);
            };
            pending.done().await?;
            // With the hole before it.
            on_sent(end - written);
            written = end;
        }
    }
}

/// Copies the file `from` in the container to `to`. Returns how many bytes it has.
pub(super) async fn fetch(
    sftp: &Sftp,
    from: &[u8],
    to: &Path,
    state: &State,
) -> Result<u64, PartError> {
    let (handle, source) = sftp.open_file(from).await?;
    if source.kind() != Kind::File {
        return Err(SftpError::Garbled.into());
    }
    let (file, part) = {
        let part = to.with_file_name(part_name(from, &source, sftp.frozen()));
        let to = to.to_owned();
        blocking(move || {
            if let Ok(file) = local::open_part(&part) {
                return Ok((file, part));
            }
            // Another process has it.
            let part = to.with_file_name(own_name()?);
            Ok((local::open_part(&part)?, part))
        })
        .await?
    };
    let file = Arc::new(file);
    let mut counted = 0;
    let fetched = async {
        let start = fetch_start(sftp, &handle, &file, &source).await?;
        state.progress.add(start);
        counted += start;
        fetch_rest(sftp, &handle, &file, &source, start, |bytes| {
            state.progress.add(bytes);
            counted += bytes;
        })
        .await?;
        if sftp.frozen().is_none() {
            demand_unchanged(&source, &sftp.attributes(&handle).await?)?;
        }
        Ok::<(), PartError>(())
    };
    let fetched = fetched.await;
    state.progress.take(counted);
    match fetched {
        Err(error @ PartError::Server(SftpError::Lost(_))) => return Err(error),
        Err(error) => {
            // What failed is what counts.
            let _ = sftp.close(&handle).await;
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
        Ok(()) => {}
    }
    let to = to.to_owned();
    blocking(move || local::finish(&file, &part, &to, &source)).await?;
    sftp.close(&handle).await?;
    Ok(source.size)
}

async fn fetch_start(
    sftp: &Sftp,
    handle: &Handle,
    file: &Arc<File>,
    source: &Attributes,
) -> Result<u64, PartError> {
    let length = file.metadata()?.len();
    let is_known = sftp.frozen().is_some() && length <= source.size;
    if is_known || is_beginning(sftp, (handle, file), length, source).await? {
        return Ok(length);
    }
    if length > 0 {
        file.set_len(0)?;
    }
    Ok(0)
}

/// Fetches what the part lacks. A hole is not fetched: the part has it, too, and likewise what is all
/// zeros.
async fn fetch_rest(
    sftp: &Sftp,
    handle: &Handle,
    file: &Arc<File>,
    source: &Attributes,
    start: u64,
    mut on_fetched: impl FnMut(u64),
) -> Result<(), PartError> {
    let (pieces, mut queue) = mpsc::channel::<(u64, Bytes)>(WINDOW / 4);
    let (file, size) = (Arc::clone(file), source.size);
    let writing = blocking(move || {
        while let Some((at, piece)) = queue.blocking_recv() {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(&piece, at)?;
            }
        }
        Ok(file)
    });
    let reading = async {
        let mut reading = Reading::new(sftp, handle, (start, size));
        if sftp.frozen().is_none() {
            reading.skip_holes();
        }
        let mut fetched = start;
        while let Some((at, piece)) = reading.next().await? {
            let end = at + piece.len() as u64;
            // The writing failed, which is the error.
            if pieces.send((at, piece)).await.is_err() {
                break;
            }
            on_fetched(end - fetched);
            fetched = end;
        }
        drop(pieces);
        Ok::<_, PartError>(())
    };
    let (read, written) = tokio::join!(reading, writing);
    read?;
    let file = written?;
    // Shorter only by a hole at the end: a part that is whole has all of it.
    if file.metadata()?.len() < size {
        file.set_len(size)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_grow_while_it_is_read_and_change_in_no_other_way() {
        let attributes = |size, changed| Attributes {
            mode: 0o100_644,
            size,
            changed,
        };
        let source = attributes(5, 1);
        for now in [source, attributes(6, 2), attributes(6, 1)] {
            demand_unchanged(&source, &now).unwrap();
        }
        for now in [attributes(4, 2), attributes(4, 1), attributes(5, 2)] {
            let changed = demand_unchanged(&source, &now);
            assert!(matches!(changed, Err(PartError::Changed)));
        }
    }
}
