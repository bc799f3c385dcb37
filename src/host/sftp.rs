//! A client of `shell/host/sftp.py`: requests for files in a container, any number under way at
//! once. Where no host has the files, [`Files`] of this process answer the same requests.
//!
//! Names are bytes, as they are on the host: `russh-sftp` has them as `String`, and refuses a whole
//! folder for one name that is not UTF-8. Of SFTP's own requests few are needed here: most are those
//! of `shell/host/files.py`, which take a whole file, and nanoseconds.
//!
//! It never waits to send: the caller limits how many requests are under way.

mod carried;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod listed;
mod packet;
mod served;
mod waiting;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use carried::carry;
use listed::{DEPTH, Full, is_too_deep};
use packet::{Body, Fields, Garbled, Reply, kind};
use waiting::{Request, Waiting, lock};

use crate::ssh::{Ssh, SshError};

pub(crate) use listed::Listed;
pub(crate) use packet::{Attributes, Entry, Kind};
pub(crate) use served::Files;

/// The most data in a request or an answer, in bytes: the server takes 255 KiB, and whole pages are
/// written faster.
pub(crate) const MOST: usize = 240 << 10;

/// How much is hashed by one request, in bytes: a server is never silent for as long as a file takes.
pub(crate) const HASHED: u64 = 1 << 30;

/// How long a server may be silent while it is asked for something: a slow disk, or a pause of the
/// container, takes a minute or two.
const SILENCE: Duration = Duration::from_mins(10);

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SftpError {
    /// There is no such file or folder.
    #[error("no such file or folder")]
    Missing,
    /// The file ends here.
    #[error("it ends early")]
    End,
    /// More is listed than is kept ([`Listed`]).
    #[error("more than five million files are too many at once: name a folder of it")]
    TooMany,
    /// The server's reason.
    #[error("{0}")]
    Refused(String),
    /// The server cannot be started: its words.
    #[error("the host's file server cannot be started: {0}")]
    NoServer(String),
    /// The connection, or the server, has ended.
    #[error("{0}")]
    Lost(String),
    /// An answer that makes no sense.
    #[error("the host's file server gave an answer that makes no sense")]
    Garbled,
}

impl From<Garbled> for SftpError {
    fn from(_: Garbled) -> Self {
        Self::Garbled
    }
}

impl From<Full> for SftpError {
    fn from(_: Full) -> Self {
        Self::TooMany
    }
}

impl From<SshError> for SftpError {
    fn from(error: SshError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// A server in a container. Cheap to clone; it ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Sftp {
    requests: mpsc::UnboundedSender<Request>,
    waiting: Arc<Mutex<Waiting>>,
    /// The id of what it serves, if that never changes.
    frozen: Option<Arc<str>>,
}

/// An open file or folder there.
#[derive(Clone)]
pub(crate) struct Handle(Bytes);

/// A request that is sent, whose answer may be there already.
pub(crate) struct Pending {
    answer: oneshot::Receiver<Reply>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Sftp {
    /// Starts the server by `command` ([`super::scripts::Host::file_server`]).
    pub(crate) async fn open(ssh: &Ssh, command: &str) -> Result<Self, SftpError> {
        let (outputs, sender) = ssh.exec(command, None).await?.split();
        let (requests, queue) = mpsc::unbounded_channel();
        let waiting = Waiting::new(SILENCE);
        tokio::spawn(carry(
            ssh.clone(),
            (outputs, sender),
            queue,
            Arc::clone(&waiting),
        ));
        let sftp = Self {
            requests,
            waiting,
            frozen: None,
        };
        match sftp.begin(kind::INIT, |_| {}).reply().await {
            Ok(_) => Ok(sftp),
            Err(SftpError::Lost(words)) if !ssh.has_ended() => Err(SftpError::NoServer(words)),
            Err(error) => Err(error),
        }
    }

    /// The id of what it serves, if that never changes: a file that was read in part from it goes on
    /// where that stopped.
    pub(crate) fn frozen(&self) -> Option<&str> {
        self.frozen.as_deref()
    }

    fn begin(&self, kind: u8, write: impl FnOnce(&mut Body)) -> Pending {
        self.begin_with(kind, write, None)
    }

    fn begin_with(&self, kind: u8, write: impl FnOnce(&mut Body), data: Option<Bytes>) -> Pending {
        let (sender, answer) = oneshot::channel();
        let waiting = Arc::clone(&self.waiting);
        let id = {
            let mut waiting = lock(&waiting);
            // The answer to the first request has no number, and counts as that of 0.
            let id = waiting.last;
            waiting.last = waiting.last.wrapping_add(1);
            if waiting.ended.is_none() {
                waiting.answers.insert(id, sender);
            }
            id
        };
        let mut body = Body::new(kind, id);
        write(&mut body);
        let head = body.finish(data.as_ref().map_or(0, Bytes::len));
        // Fails only where the server has ended, which the answer has.
        let _ = self.requests.send(Request(head, data));
        Pending { answer, waiting }
    }

    fn extended(&self, name: &str, write: impl FnOnce(&mut Body)) -> Pending {
        self.extended_with(name, write, None)
    }

    fn extended_with(
        &self,
        name: &str,
        write: impl FnOnce(&mut Body),
        data: Option<Bytes>,
    ) -> Pending {
        let write = |body: &mut Body| {
            body.text(name.as_bytes());
            write(body);
        };
        self.begin_with(kind::EXTENDED, write, data)
    }

    /// The path that a shell would make of one that begins with `~`.
    pub(crate) async fn expand(&self, path: &[u8]) -> Result<Vec<u8>, SftpError> {
        let asked = self.extended("expand-path@openssh.com", |body| body.text(path));
        let mut fields = asked.reply().await?;
        fields.number()?;
        Ok(fields.text()?.to_vec())
    }

    /// Reads the entry at `path`: where that is a link, the entry it leads to if `follows`, else
    /// the link. None if there is nothing. An answer that is still a link where links are followed
    /// is garbled: a copy would make it here by the name that was typed.
    pub(crate) async fn look(
        &self,
        path: &[u8],
        follows: bool,
    ) -> Result<Option<Entry>, SftpError> {
        let asked = self.extended("look@xdrive", |body| {
            body.text(path);
            body.byte(u8::from(follows));
        });
        let mut fields = match asked.reply().await {
            Err(SftpError::Missing) => return Ok(None),
            answer => answer?,
        };
        let entry = fields.described(Vec::new())?;
        if follows && entry.attributes.kind() == Kind::Link {
            return Err(SftpError::Garbled);
        }
        Ok(Some(entry))
    }

    /// All that is in a folder, each name once, as far as `listed` has room for it.
    pub(crate) async fn list(&self, path: &[u8], listed: &Listed) -> Result<Vec<Entry>, SftpError> {
        if is_too_deep(path) {
            let why = format!("it is more than {DEPTH} folders deep");
            return Err(SftpError::Refused(why));
        }
        let mut entries = Vec::new();
        let mut asked = self.extended("list@xdrive", |body| body.text(path));
        loop {
            let mut fields = asked.reply().await?;
            let handle = fields.text()?;
            while !fields.is_empty() {
                let entry = fields.entry()?;
                listed.add(&entry)?;
                entries.push(entry);
            }
            if handle.is_empty() {
                break;
            }
            listed.answer()?;
            asked = self.extended("list-on@xdrive", |body| body.text(&handle));
        }
        let mut names = HashSet::with_capacity(entries.len());
        if entries.iter().all(|entry| names.insert(&*entry.name)) {
            Ok(entries)
        } else {
            let why = "its listing has a name twice";
            Err(SftpError::Refused(why.to_owned()))
        }
    }

    /// Makes a folder; false if it is there.
    pub(crate) async fn make_folder(&self, path: &[u8], mode: u32) -> Result<bool, SftpError> {
        let asked = self.extended("folder@xdrive", |body| {
            body.text(path);
            body.number(mode);
        });
        Ok(asked.reply().await?.byte()? != 0)
    }

    /// Writes a file of at most [`MOST`] bytes, in place of what has its path.
    pub(crate) fn put(&self, path: &[u8], attributes: &Attributes, content: Bytes) -> Pending {
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let write = |body: &mut Body| {
            body.text(path);
            body.write_kept_attributes(attributes);
            body.number(length);
        };
        self.extended_with("put@xdrive", write, Some(content))
    }

    /// Asks for a file's content, for [`Pending::content`].
    pub(crate) fn get(&self, path: &[u8]) -> Pending {
        self.extended("get@xdrive", |body| {
            body.text(path);
            body.number(u32::try_from(MOST).unwrap_or(u32::MAX));
        })
    }

    /// Makes a link, in place of what has its path.
    pub(crate) fn link(&self, path: &[u8], target: &[u8], changed: i64) -> Pending {
        self.extended("link@xdrive", |body| {
            body.text(target);
            body.text(path);
            body.time(changed);
        })
    }

    /// Sets permissions and the time of change.
    pub(crate) fn set(&self, path: &[u8], attributes: &Attributes) -> Pending {
        self.extended("set@xdrive", |body| {
            body.text(path);
            body.write_kept_attributes(attributes);
        })
    }

    /// Opens the part of a file for writing and reading, or begins it; also its size. Refused while
    /// another server has it.
    pub(crate) async fn open_part(&self, path: &[u8]) -> Result<(Handle, u64), SftpError> {
        let asked = self.extended("part@xdrive", |body| body.text(path));
        let mut fields = asked.reply().await?;
        let size = fields.long()?;
        Ok((Handle(fields.text()?), size))
    }

    /// The SHA-256 of `length` bytes of a file from `at` on, at most [`HASHED`].
    pub(crate) async fn hash(
        &self,
        file: &Handle,
        at: u64,
        length: u64,
    ) -> Result<Bytes, SftpError> {
        let asked = self.extended("hash@xdrive", |body| {
            body.text(&file.0);
            body.long(at);
            body.long(length);
        });
        Ok(asked.reply().await?.rest())
    }

    /// Cuts a file at `length` bytes.
    pub(crate) async fn truncate(&self, file: &Handle, length: u64) -> Result<(), SftpError> {
        let asked = self.begin(kind::FSETSTAT, |body| {
            body.text(&file.0);
            // The size alone.
            body.number(1);
            body.long(length);
        });
        asked.done().await
    }

    /// Writes at most [`MOST`] bytes to a file.
    pub(crate) fn write(&self, file: &Handle, at: u64, data: Bytes) -> Pending {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let write = |body: &mut Body| {
            body.text(&file.0);
            body.long(at);
            body.number(length);
        };
        self.begin_with(kind::WRITE, write, Some(data))
    }

    /// Makes a part of `size` bytes the file at `path`.
    pub(crate) async fn finish(
        &self,
        file: &Handle,
        part: &[u8],
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(), SftpError> {
        let asked = self.extended("finish@xdrive", |body| {
            body.text(&file.0);
            body.long(attributes.size);
            body.text(part);
            body.text(path);
            body.write_kept_attributes(attributes);
        });
        asked.done().await
    }

    /// Opens a file for reading; also its attributes then.
    pub(crate) async fn open_file(&self, path: &[u8]) -> Result<(Handle, Attributes), SftpError> {
        let asked = self.extended("open@xdrive", |body| body.text(path));
        let mut fields = asked.reply().await?;
        let attributes = fields.attributes()?;
        Ok((Handle(fields.text()?), attributes))
    }

    /// The attributes that an open file has now.
    pub(crate) async fn attributes(&self, file: &Handle) -> Result<Attributes, SftpError> {
        let asked = self.extended("stat@xdrive", |body| body.text(&file.0));
        Ok(asked.reply().await?.attributes()?)
    }

    /// Where what is no hole of a file begins and ends, from `at` on: some of it, in order; nothing
    /// where all that is left is a hole.
    pub(crate) async fn extents(
        &self,
        file: &Handle,
        at: u64,
    ) -> Result<Vec<(u64, u64)>, SftpError> {
        let asked = self.extended("data@xdrive", |body| {
            body.text(&file.0);
            body.long(at);
        });
        let mut fields = asked.reply().await?;
        let mut found = Vec::new();
        let mut last = at;
        while !fields.is_empty() {
            let (begin, end) = (fields.long()?, fields.long()?);
            if begin < last || end <= begin {
                return Err(SftpError::Garbled);
            }
            last = end;
            found.push((begin, end));
        }
        Ok(found)
    }

    /// Asks for at most [`MOST`] bytes of a file, for [`Pending::data`].
    pub(crate) fn read(&self, file: &Handle, at: u64, length: u32) -> Pending {
        self.begin(kind::READ, |body| {
            body.text(&file.0);
            body.long(at);
            body.number(length);
        })
    }

    /// Closes a file.
    pub(crate) async fn close(&self, file: &Handle) -> Result<(), SftpError> {
        let asked = self.begin(kind::CLOSE, |body| body.text(&file.0));
        asked.done().await
    }

    /// Removes a file or a link.
    pub(crate) async fn remove(&self, path: &[u8]) -> Result<(), SftpError> {
        let asked = self.begin(kind::REMOVE, |body| body.text(path));
        asked.done().await
    }

    /// Removes an empty folder.
    pub(crate) async fn remove_folder(&self, path: &[u8]) -> Result<(), SftpError> {
        self.begin(kind::RMDIR, |body| body.text(path)).done().await
    }
}

impl Pending {
    async fn reply(self) -> Result<Fields, SftpError> {
        let Self { answer, waiting } = self;
        match unless_silent(answer, &waiting).await? {
            Ok(reply) if reply.kind == kind::STATUS => {
                let mut fields = reply.fields;
                match fields.number()? {
                    0 => Ok(fields),
                    1 => Err(SftpError::End),
                    2 => Err(SftpError::Missing),
                    _ => {
                        let words = fields.text()?;
                        let words = String::from_utf8_lossy(&words);
                        Err(SftpError::Refused(in_lower_case(&words)))
                    }
                }
            }
            Ok(reply) => Ok(reply.fields),
            Err(_) => {
                let ended = lock(&waiting).ended.clone();
                Err(SftpError::Lost(ended.unwrap_or_default()))
            }
        }
    }

    /// Waits until it is done.
    pub(crate) async fn done(self) -> Result<(), SftpError> {
        self.reply().await.map(drop)
    }

    /// The file that [`Sftp::get`] asked for; none if it is too long for that.
    pub(crate) async fn content(self) -> Result<Option<(Attributes, Bytes)>, SftpError> {
        let mut fields = self.reply().await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let attributes = fields.attributes()?;
        Ok(Some((attributes, fields.rest())))
    }

    /// The bytes that [`Sftp::read`] asked for; none at the end of the file.
    pub(crate) async fn data(self) -> Result<Bytes, SftpError> {
        match self.reply().await {
            Err(SftpError::End) => Ok(Bytes::new()),
            answer => Ok(answer?.text()?),
        }
    }
}

/// Waits for an answer as long as the server is not silent.
async fn unless_silent<T>(
    mut answer: oneshot::Receiver<T>,
    waiting: &Mutex<Waiting>,
) -> Result<Result<T, oneshot::error::RecvError>, SftpError> {
    let asked = Instant::now();
    loop {
        let (heard, silence) = {
            let waiting = lock(waiting);
            (waiting.heard, waiting.silence)
        };
        let end = heard.map_or(asked, |heard| heard.max(asked)) + silence;
        if Instant::now() >= end {
            let why = "the host's file server does not answer";
            return Err(SftpError::Lost(why.to_owned()));
        }
        if let Ok(answered) = timeout_at(end, &mut answer).await {
            return Ok(answered);
        }
    }
}

/// An error's words as the end of a sentence.
fn in_lower_case(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
pub(crate) mod piped;
