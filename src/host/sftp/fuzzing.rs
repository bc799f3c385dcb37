//! A file server that answers whatever a fuzzer makes up: each request of a client ends, and what
//! comes out stays within its bounds.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::packet::{Entry, Kind, kind};
use super::waiting::{Request, Waiting, lock, pass};
use super::{Handle, Listed, MOST, Sftp, SftpError};

/// How many requests an input answers.
const REQUESTS: usize = 32;

/// How many names are listed at most.
const NAMES: u64 = 1000;

/// The answers that are left.
struct Answers<'a> {
    rest: &'a [u8],
    arrived: BytesMut,
}

impl<'a> Answers<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|it| it[0])
    }

    /// The bytes of the next answer to request `id`: bytes as they are, or a packet of this kind whose length
    /// and number are right.
    fn next(&mut self, id: [u8; 4]) -> Option<Vec<u8>> {
        let (how, low) = (self.byte()?, self.byte()?);
        let length = usize::from(how & 0x1F) << 8 | usize::from(low);
        let body = &self.rest[..length.min(self.rest.len())];
        self.rest = &self.rest[body.len()..];
        let kind = match how >> 5 {
            0 | 1 | 6 => kind::EXTENDED_REPLY,
            2 => kind::STATUS,
            3 => kind::DATA,
            4 => 104,
            5 => 2,
            _ => return Some(body.to_vec()),
        };
        let whole = u32::try_from(body.len() + 5).ok()?.to_be_bytes();
        Some([&whole, &[kind][..], &id, body].concat())
    }

    /// Answers until the input ends, or the answers make no sense.
    async fn serve(
        &mut self,
        queue: &mut mpsc::UnboundedReceiver<Request>,
        waiting: &Mutex<Waiting>,
    ) {
        let mut served = 0;
        while let Some(Request(head, _)) = queue.recv().await {
            served += 1;
            let id = head.get(5..9).and_then(|it| it.try_into().ok());
            let answer = self.next(id.unwrap_or_default());
            let is_over = served > REQUESTS;
            let Some(answer) = answer.filter(|_| !is_over) else {
                break;
            };
            self.arrived.extend_from_slice(&answer);
            if pass(&mut self.arrived, waiting).is_err() {
                break;
            }
        }
        let mut waiting = lock(waiting);
        waiting.ended = Some("it ends".to_owned());
        waiting.answers.clear();
    }
}

thread_local! {
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Makes a client ask for what the input says, and answers as it says.
pub(crate) fn answer(input: &[u8]) {
    RUNTIME.with_borrow_mut(|runtime| {
        let runtime = runtime.get_or_insert_with(|| {
            let built = Builder::new_current_thread().enable_time().build();
            built.expect("a runtime")
        });
        runtime.block_on(converse(input));
    });
}

async fn converse(input: &[u8]) {
    let (requests, mut queue) = mpsc::unbounded_channel();
    // The last request of all may wait for the rest of an answer.
    let waiting = Waiting::new(Duration::from_millis(2));
    let sftp = Sftp {
        requests,
        waiting: Arc::clone(&waiting),
        frozen: None,
    };
    let Some((asked, rest)) = input.split_first_chunk::<4>() else {
        return;
    };
    let mut answers = Answers {
        rest,
        arrived: BytesMut::new(),
    };
    let ask = async {
        for asked in asked {
            if matches!(request(&sftp, *asked).await, Err(SftpError::Lost(_))) {
                break;
            }
        }
        drop(sftp);
    };
    tokio::join!(ask, answers.serve(&mut queue, &waiting));
}

/// A request of the client's.
async fn request(sftp: &Sftp, asked: u8) -> Result<(), SftpError> {
    let handle = Handle(Bytes::from_static(b"h"));
    match asked % 14 {
        0 => {
            let listed = Listed::bounded(NAMES);
            let entries = sftp.list(b"things", &listed).await?;
            assert!(entries.len() as u64 <= NAMES, "more is listed than is kept");
            let mut names: Vec<&[u8]> = entries.iter().map(|it| &*it.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), entries.len(), "a name is listed twice");
            entries.iter().for_each(check);
        }
        1 | 2 => {
            let follows = asked % 14 == 1;
            if let Some(found) = sftp.look(b"a", follows).await? {
                let is_link = found.attributes.kind() == Kind::Link;
                assert!(!(follows && is_link), "a link was followed to a link");
                assert!(found.target.len() <= 4096, "a target is too long");
                assert_eq!(found.attributes.permissions() & !0o777, 0);
            }
        }
        3 => drop(sftp.expand(b"~").await?),
        4 => {
            if let Some((_, content)) = sftp.get(b"a").content().await? {
                assert!(content.len() <= 1 << 20, "an answer is too long");
            }
        }
        5 => drop(sftp.open_file(b"a").await?),
        6 => {
            let at = 3;
            let found = sftp.extents(&handle, at).await?;
            let mut last = at;
            for (begin, end) in found {
                assert!(last <= begin && begin < end, "extents are in order");
                last = end;
            }
        }
        7 => {
            let data = sftp.read(&handle, 0, u32::try_from(MOST).unwrap_or(0));
            assert!(data.data().await?.len() <= 1 << 20, "an answer is too long");
        }
        8 => drop(sftp.open_part(b"a").await?),
        9 => drop(sftp.hash(&handle, 0, 9).await?),
        10 => drop(sftp.make_folder(b"a", 0o755).await?),
        11 => drop(sftp.attributes(&handle).await?),
        12 => sftp.close(&handle).await?,
        _ => sftp.link(b"a", b"b", 0).done().await?,
    }
    Ok(())
}

fn check(entry: &Entry) {
    let name = &*entry.name;
    assert!(!matches!(name, b"" | b"." | b".."), "{name:?}");
    assert!(name.len() <= 255, "{name:?}");
    assert!(!name.iter().any(|it| matches!(it, b'/' | 0)), "{name:?}");
    assert!(entry.target.len() <= 4096, "a target is too long");
}
