//! A server that lies: it answers every request of a copy, and one kind of request with what is wrong
//! in one field, huge, repeated, late or never.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const FOLDER: u32 = 0o040_755;
pub(super) const FILE: u32 = 0o100_644;
pub(super) const LINK: u32 = 0o120_777;

/// A field of an answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Byte(u8),
    Number(u32),
    Long(u64),
    Text(Vec<u8>),
    Raw(Vec<u8>),
}
pub(super) use Field::{Byte, Long, Number, Raw, Text};

impl fmt::Debug for Field {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Byte(number) => write!(to, "{number}"),
            Number(number) => write!(to, "{number:#o}"),
            Long(number) => write!(to, "{number}"),
            Text(bytes) | Raw(bytes) => {
                let length = bytes.len();
                let some = bytes[..length.min(30)].escape_ascii();
                write!(to, "{length} bytes, {some}")
            }
        }
    }
}

/// The wrong in the answers to one kind of request.
#[derive(Debug, Clone)]
pub(super) enum Lie {
    None,
    Field(usize, Field),
    /// The answer ends before this field.
    Cut(usize),
    Longer,
    Status(u32),
    OtherNumber,
    Twice,
    Late,
    Never,
    End,
    /// The length before the answer.
    Length(u32),
    /// A listing that goes on, with this many names in each of its answers.
    Endless(usize),
    /// Every folder has one in it.
    Deep,
}

/// A request's name, or its kind as a number.
pub(super) type Asked = String;

/// The request that is read: what is left of it.
struct Request<'a>(&'a [u8]);

impl Request<'_> {
    fn number(&mut self) -> u32 {
        let (number, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_be_bytes(*number)
    }

    fn text(&mut self) -> Vec<u8> {
        let length = self.number() as usize;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        text.to_vec()
    }
}

fn attributes(mode: u32, size: u64) -> Vec<Field> {
    vec![Number(mode), Long(size), Long(1_000_000_000_000_000_000)]
}

/// The content of the files, by their names.
fn content(name: &str) -> Vec<u8> {
    match name {
        "a" => b"small".to_vec(),
        "b" => b"deep".to_vec(),
        _ => vec![7; 250 << 10],
    }
}

fn described(name: &str) -> Vec<Field> {
    let size = content(name).len() as u64;
    let (mode, size, target) = match name {
        "things" | "deep" | "d" | "" | "." | "~" => (FOLDER, 4096, ""),
        "link" => (LINK, 1, "a"),
        _ => (FILE, size, ""),
    };
    [attributes(mode, size), vec![Text(target.into())]].concat()
}

fn last(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path).into_owned();
    let path = path.trim_end_matches("/.").trim_end_matches('/');
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A connection to the liar.
pub(super) struct Liar {
    pub(super) asked: Asked,
    pub(super) lie: Lie,
    /// The first honest answer to each.
    pub(super) seen: Arc<Mutex<BTreeMap<Asked, Vec<Field>>>>,
    pub(super) listed: usize,
}

impl Liar {
    /// The honest answer: its kind and its fields.
    fn answer(&mut self, kind: u8, request: &mut Request<'_>) -> (Asked, u8, Vec<Field>) {
        let done = || (101, vec![Number(0), Text(vec![]), Text(vec![])]);
        if kind != 200 {
            let (kind_of, fields) = match kind {
                1 => (2, vec![Number(3)]),
                5 => {
                    let file = last(&request.text());
                    let at = (u64::from(request.number()) << 32) + u64::from(request.number());
                    let content = content(&file);
                    let at = content.len().min(usize::try_from(at).unwrap());
                    let end = content.len().min(at + request.number() as usize);
                    (103, vec![Text(content[at..end].to_vec())])
                }
                _ => done(),
            };
            return (kind.to_string(), kind_of, fields);
        }
        let name = String::from_utf8(request.text()).unwrap();
        let path = request.text();
        let file = last(&path);
        let handle = || Text(file.clone().into());
        let (kind, fields) = match &*name {
            "expand-path@openssh.com" => {
                let path = [&b"/root"[..], path.strip_prefix(b"~").unwrap_or(&path)].concat();
                let name = Text(path);
                (104, vec![Number(1), name.clone(), name, Number(0)])
            }
            "look@xdrive" => (201, described(&file)),
            "list@xdrive" | "list-on@xdrive" => (201, self.listing(&file)),
            "folder@xdrive" => (201, vec![Byte(0)]),
            "get@xdrive" => {
                let content = content(&file);
                let mut fields = attributes(FILE, content.len() as u64);
                fields.push(Raw(content));
                (201, fields)
            }
            "open@xdrive" => {
                let mut fields = attributes(FILE, content(&file).len() as u64);
                fields.push(handle());
                (201, fields)
            }
            "data@xdrive" => {
                let at = (u64::from(request.number()) << 32) + u64::from(request.number());
                let size = content(&file).len() as u64;
                let is_left = at < size;
                (
                    201,
                    [Long(at), Long(size)]
                        .into_iter()
                        .filter(|_| is_left)
                        .collect(),
                )
            }
            "stat@xdrive" => (201, attributes(FILE, content(&file).len() as u64)),
            "part@xdrive" => (201, vec![Long(0), handle()]),
            "hash@xdrive" => (201, vec![Raw(vec![0; 32])]),
            _ => done(),
        };
        (name, kind, fields)
    }

    fn listing(&mut self, folder: &str) -> Vec<Field> {
        let entries = |names: &[&str]| {
            let fields = names.iter().flat_map(|name| {
                let mut entry = vec![Text((*name).into())];
                entry.extend(described(name));
                entry
            });
            fields.collect::<Vec<_>>()
        };
        let mut fields = vec![Text(vec![])];
        match self.lie {
            Lie::Endless(names) if self.asked.starts_with("list") => {
                fields[0] = Text(b"more".to_vec());
                for _ in 0..names {
                    self.listed += 1;
                    fields.push(Text(format!("{:0255}", self.listed).into()));
                    fields.extend(attributes(LINK, 1));
                    fields.push(Text(vec![b't'; 3000]));
                }
            }
            Lie::Deep => fields.extend(entries(&["d"])),
            _ if folder == "deep" => fields.extend(entries(&["b"])),
            _ => fields.extend(entries(&["a", "link", "deep", "large"])),
        }
        fields
    }

    /// The bytes for a request; none where all ends.
    fn bytes(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let kind = packet[0];
        let mut request = Request(&packet[1..]);
        let number = request.number();
        let (asked, mut kind, mut fields) = self.answer(kind, &mut request);
        self.seen
            .lock()
            .unwrap()
            .entry(asked.clone())
            .or_insert_with(|| fields.clone());
        let lie = if asked == self.asked {
            self.lie.clone()
        } else {
            Lie::None
        };
        let mut number = number;
        let mut times = 1;
        let mut length = None;
        match lie {
            Lie::Field(at, field) if at < fields.len() => fields[at] = field,
            Lie::Cut(at) => fields.truncate(at),
            Lie::Longer => fields.push(Raw(vec![0xff; 100_000])),
            Lie::Status(code) => {
                kind = 101;
                fields = vec![Number(code), Text(b"Words\x1b[2J".to_vec()), Text(vec![])];
            }
            Lie::OtherNumber => number = number.wrapping_add(1),
            Lie::Twice => times = 2,
            Lie::Late => std::thread::sleep(Duration::from_millis(30)),
            Lie::Never => times = 0,
            Lie::End => return None,
            Lie::Length(wrong) => length = Some(wrong),
            Lie::None | Lie::Field(..) | Lie::Endless(_) | Lie::Deep => {}
        }
        let mut body = vec![kind];
        if kind != 2 {
            body.extend(number.to_be_bytes());
        }
        for field in fields {
            match field {
                Byte(byte) => body.push(byte),
                Number(number) => body.extend(number.to_be_bytes()),
                Long(number) => body.extend(number.to_be_bytes()),
                Text(text) => {
                    body.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                    body.extend(text);
                }
                Raw(bytes) => body.extend(bytes),
            }
        }
        let length = length.unwrap_or(u32::try_from(body.len()).unwrap());
        let packet = [&length.to_be_bytes()[..], &body].concat();
        Some(packet.repeat(times))
    }

    /// Answers until either side ends.
    pub(super) fn serve(mut self, mut stream: &UnixStream) {
        loop {
            let mut length = [0; 4];
            if stream.read_exact(&mut length).is_err() {
                return;
            }
            let mut packet = vec![0; u32::from_be_bytes(length) as usize];
            if stream.read_exact(&mut packet).is_err() {
                return;
            }
            match self.bytes(&packet) {
                Some(bytes) if stream.write_all(&bytes).is_ok() => {}
                _ => return,
            }
        }
    }
}
