//! A server in this process: [`Files`] answer the requests, on a thread of their own.

use std::mem;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

use super::packet::{Attributes, Body, Entry, Fields, Kind, Reply, kind, split_packet};
use super::waiting::{Request, Waiting, lock};
use super::{SILENCE, Sftp, SftpError};

/// Files that can be read, and never change. All of it blocks.
pub(crate) trait Files {
    /// The path that a shell would make of one that begins with `~`.
    fn expand(&mut self, path: &[u8]) -> Result<Vec<u8>, SftpError>;

    /// Reads the entry at `path`: where that is a link, the entry it leads to if `follows`, else
    /// the link.
    fn look(&mut self, path: &[u8], follows: bool) -> Result<Entry, SftpError>;

    /// All that is in a folder.
    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, SftpError>;

    /// Opens a file. Returns its attributes, and a number for the other requests.
    fn open(&mut self, path: &[u8]) -> Result<(Attributes, u32), SftpError>;

    /// At most `length` bytes from `at` on, fewer only where the file ends.
    fn read(&mut self, file: u32, at: u64, length: usize) -> Result<Bytes, SftpError>;

    /// Closes a file.
    fn close(&mut self, file: u32);
}

impl Sftp {
    /// Files of this process, of the thing `frozen`, which never changes. They are opened by `open`
    /// on the thread that serves them; what fails there ends the server.
    pub(crate) fn served<F: Files>(
        frozen: Arc<str>,
        open: impl FnOnce() -> Result<F, SftpError> + Send + 'static,
    ) -> Self {
        let (requests, queue) = mpsc::unbounded_channel();
        let waiting = Waiting::new(SILENCE);
        let answers = Arc::clone(&waiting);
        thread::spawn(move || {
            let mut served = Served {
                waiting: answers,
                why: "their reader stopped by a fault of its own".to_owned(),
            };
            served.why = match open() {
                Ok(mut files) => serve(&mut files, queue, &served.waiting),
                Err(error) => error.to_string(),
            };
        });
        Self {
            requests,
            waiting,
            frozen: Some(frozen),
        }
    }
}

/// The end of a server, for whoever waits for an answer: also that of one that panics.
struct Served {
    waiting: Arc<Mutex<Waiting>>,
    why: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiting);
        waiting.ended = Some(mem::take(&mut self.why));
        waiting.answers.clear();
    }
}

/// Answers until there are no more requests, or all is lost. Returns why it ended.
fn serve(
    files: &mut impl Files,
    mut queue: mpsc::UnboundedReceiver<Request>,
    waiting: &Mutex<Waiting>,
) -> String {
    while let Some(Request(head, _)) = queue.blocking_recv() {
        let Ok(Some((id, request))) = split_packet(&mut BytesMut::from(head)) else {
            return "a request makes no sense".to_owned();
        };
        let reply = match answer(files, request) {
            Err(SftpError::Lost(why)) => return why,
            answered => answered.unwrap_or_else(|error| status(&error)),
        };
        let asking = lock(waiting).answers.remove(&id);
        if let Some(asking) = asking {
            // Fails only if the `Pending` was dropped.
            let _ = asking.send(reply);
        }
    }
    "nobody asks any more".to_owned()
}

fn answer(files: &mut impl Files, request: Reply) -> Result<Reply, SftpError> {
    let mut fields = request.fields;
    let mut body = Body::answer();
    let kind = match request.kind {
        kind::READ => {
            let file = number(&mut fields)?;
            let (at, length) = (fields.long()?, fields.number()? as usize);
            match files.read(file, at, length)? {
                data if data.is_empty() => return Err(SftpError::End),
                data => body.text(&data),
            }
            kind::DATA
        }
        kind::CLOSE => {
            files.close(number(&mut fields)?);
            body.number(0);
            kind::STATUS
        }
        kind::EXTENDED => {
            let name = fields.text()?;
            extended(files, &name, &fields.text()?, &mut fields, &mut body)?;
            kind::EXTENDED_REPLY
        }
        _ => return Err(SftpError::Refused("nothing can be written here".to_owned())),
    };
    Ok(body.reply(kind))
}

/// Answers the request `name` about what is at `path`.
fn extended(
    files: &mut impl Files,
    name: &[u8],
    path: &[u8],
    fields: &mut Fields,
    body: &mut Body,
) -> Result<(), SftpError> {
    match name {
        b"expand-path@openssh.com" => {
            body.number(1);
            body.text(&files.expand(path)?);
        }
        b"look@xdrive" => {
            let found = files.look(path, fields.byte()? != 0)?;
            body.attributes(&found.attributes);
            body.text(&found.target);
        }
        b"list@xdrive" => {
            // No handle: all of it is here.
            body.text(b"");
            for entry in files.list(path)? {
                body.text(&entry.name);
                body.attributes(&entry.attributes);
                body.text(&entry.target);
            }
        }
        b"open@xdrive" => {
            let (attributes, file) = files.open(path)?;
            body.attributes(&attributes);
            body.text(&file.to_be_bytes());
        }
        b"get@xdrive" => {
            let most = fields.number()?;
            let (attributes, file) = files.open(path)?;
            if attributes.kind() == Kind::File && attributes.size <= u64::from(most) {
                let length = usize::try_from(attributes.size).unwrap_or(usize::MAX);
                let content = files.read(file, 0, length);
                files.close(file);
                body.attributes(&attributes);
                body.bytes(&content?);
            } else {
                files.close(file);
            }
        }
        _ => return Err(SftpError::Refused("nothing can be written here".to_owned())),
    }
    Ok(())
}

/// The number of an open file.
fn number(fields: &mut Fields) -> Result<u32, SftpError> {
    let handle = fields.text()?;
    let bytes = <[u8; 4]>::try_from(&*handle).map_err(|_| SftpError::Garbled)?;
    Ok(u32::from_be_bytes(bytes))
}

/// The answer to a request that failed.
fn status(error: &SftpError) -> Reply {
    let mut body = Body::answer();
    body.number(match error {
        SftpError::End => 1,
        SftpError::Missing => 2,
        _ => 4,
    });
    body.text(error.to_string().as_bytes());
    body.reply(kind::STATUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that cannot be read without a panic.
    struct Panicking;

    impl Files for Panicking {
        fn expand(&mut self, path: &[u8]) -> Result<Vec<u8>, SftpError> {
            Ok(path.to_vec())
        }

        fn look(&mut self, _: &[u8], _: bool) -> Result<Entry, SftpError> {
            panic!("on purpose")
        }

        fn list(&mut self, _: &[u8]) -> Result<Vec<Entry>, SftpError> {
            Ok(Vec::new())
        }

        fn open(&mut self, _: &[u8]) -> Result<(Attributes, u32), SftpError> {
            Err(SftpError::Missing)
        }

        fn read(&mut self, _: u32, _: u64, _: usize) -> Result<Bytes, SftpError> {
            Err(SftpError::End)
        }

        fn close(&mut self, _: u32) {}
    }

    #[tokio::test]
    async fn a_reader_that_panics_ends_what_waits_for_it() {
        let sftp = Sftp::served("frozen".into(), || Ok(Panicking));
        assert_eq!(sftp.expand(b"a").await, Ok(b"a".to_vec()));
        let (one, other) = tokio::join!(sftp.look(b"a", true), sftp.look(b"b", true));
        for ended in [one, other] {
            assert!(matches!(ended, Err(SftpError::Lost(_))), "{ended:?}");
        }
        // And what is asked for later.
        let late = sftp.expand(b"a").await;
        assert!(matches!(late, Err(SftpError::Lost(_))), "{late:?}");
    }
}
