//! The packets of SFTP, version 3 (draft-ietf-secsh-filexfer-02), and what is in those of
//! `shell/host/files.py`.

use bytes::{Buf, Bytes, BytesMut};

/// The kinds of packets.
pub(super) mod kind {
    pub(in super::super) const INIT: u8 = 1;
    pub(super) const VERSION: u8 = 2;
    pub(in super::super) const CLOSE: u8 = 4;
    pub(in super::super) const READ: u8 = 5;
    pub(in super::super) const WRITE: u8 = 6;
    pub(in super::super) const FSETSTAT: u8 = 10;
    pub(in super::super) const REMOVE: u8 = 13;
    pub(in super::super) const RMDIR: u8 = 15;
    pub(in super::super) const STATUS: u8 = 101;
    pub(in super::super) const DATA: u8 = 103;
    pub(in super::super) const EXTENDED: u8 = 200;
    pub(in super::super) const EXTENDED_REPLY: u8 = 201;
}

/// The version that is spoken.
const VERSION: u32 = 3;

/// The longest answer, in bytes.
const LONGEST: usize = 1 << 20;

/// The longest name, in bytes: `NAME_MAX` of Linux, which its file systems have.
const NAME: usize = 255;

/// The longest target of a link, in bytes: `PATH_MAX` of Linux.
const TARGET: usize = 4096;

/// The packet that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbled;

/// The kind of an entry: file, folder or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Other,
}

/// The attributes of a file, folder or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// As `st_mode` (inode(7)).
    pub(crate) mode: u32,
    /// In bytes.
    pub(crate) size: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub(crate) changed: i64,
}

impl Attributes {
    pub(crate) fn kind(&self) -> Kind {
        match self.mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => Kind::Folder,
            0o120_000 => Kind::Link,
            _ => Kind::Other,
        }
    }

    /// The bits that say who may read, write and execute the file.
    pub(crate) fn permissions(&self) -> u32 {
        self.mode & 0o777
    }
}

/// A file, folder or link by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) attributes: Attributes,
    /// Where it leads, if it is a link.
    pub(crate) target: Vec<u8>,
}

/// A packet that is being written.
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn new(kind: u8, id: u32) -> Self {
        // The length is written at the end.
        let mut body = Self(vec![0; 4]);
        body.byte(kind);
        body.number(if kind == kind::INIT { VERSION } else { id });
        body
    }

    /// An answer's body, for [`Body::reply`].
    pub(super) fn answer() -> Self {
        Self(Vec::new())
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    pub(super) fn long(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    pub(super) fn time(&mut self, time: i64) {
        self.0.extend_from_slice(&time.to_be_bytes());
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes(text);
    }

    /// The attributes that a file keeps: permissions, and the time.
    pub(super) fn write_kept_attributes(&mut self, attributes: &Attributes) {
        self.number(attributes.permissions());
        self.time(attributes.changed);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn attributes(&mut self, attributes: &Attributes) {
        self.number(attributes.mode);
        self.long(attributes.size);
        self.time(attributes.changed);
    }

    /// An answer that goes to nobody else.
    pub(super) fn reply(self, kind: u8) -> Reply {
        let fields = Fields(self.0.into());
        Reply { kind, fields }
    }

    /// The request, before `more` bytes of data.
    pub(super) fn finish(mut self, more: usize) -> Bytes {
        let length = u32::try_from(self.0.len() - 4 + more).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0.into()
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) kind: u8,
    pub(super) fields: Fields,
}

/// The rest of an answer, which is still to be parsed.
pub(super) struct Fields(Bytes);

/// With its length.
impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fields({} bytes)", self.0.len())
    }
}

/// Splits the first packet, such as an answer, off what has `arrived`, if it is whole; with the
/// number of its request.
pub(super) fn split_packet(arrived: &mut BytesMut) -> Result<Option<(u32, Reply)>, Garbled> {
    let Some(head) = arrived.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*head) as usize;
    if !(5..=LONGEST).contains(&length) {
        return Err(Garbled);
    }
    if arrived.len() < 4 + length {
        arrived.reserve(4 + length - arrived.len());
        return Ok(None);
    }
    arrived.advance(4);
    let mut fields = Fields(arrived.split_to(length).freeze());
    let kind = fields.byte()?;
    let id = match kind {
        kind::VERSION => 0,
        _ => fields.number()?,
    };
    Ok(Some((id, Reply { kind, fields })))
}

impl Fields {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Garbled> {
        self.0.try_get_u8().map_err(|_| Garbled)
    }

    pub(super) fn number(&mut self) -> Result<u32, Garbled> {
        self.0.try_get_u32().map_err(|_| Garbled)
    }

    pub(super) fn long(&mut self) -> Result<u64, Garbled> {
        self.0.try_get_u64().map_err(|_| Garbled)
    }

    pub(super) fn text(&mut self) -> Result<Bytes, Garbled> {
        let length = self.number()? as usize;
        if self.0.len() < length {
            return Err(Garbled);
        }
        Ok(self.0.split_to(length))
    }

    pub(super) fn rest(self) -> Bytes {
        self.0
    }

    pub(super) fn attributes(&mut self) -> Result<Attributes, Garbled> {
        Ok(Attributes {
            mode: self.number()?,
            size: self.long()?,
            changed: self.0.try_get_i64().map_err(|_| Garbled)?,
        })
    }

    /// An entry of a folder. A name that leads out of the folder is garbled: what is written by
    /// these names stays below the folder that they were asked for.
    pub(super) fn entry(&mut self) -> Result<Entry, Garbled> {
        let name = self.text()?;
        if matches!(&*name, b"" | b"." | b"..")
            || name.len() > NAME
            || name.iter().any(|it| matches!(it, b'/' | 0))
        {
            return Err(Garbled);
        }
        self.described(name.to_vec())
    }

    /// The attributes of what has this name, and where it leads.
    pub(super) fn described(&mut self, name: Vec<u8>) -> Result<Entry, Garbled> {
        let attributes = self.attributes()?;
        let target = self.text()?;
        if target.len() > TARGET {
            return Err(Garbled);
        }
        Ok(Entry {
            name,
            attributes,
            target: target.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8]) -> Vec<u8> {
        let mut body = Body(Vec::new());
        body.text(name);
        body.number(0o100_644);
        body.long(7);
        body.time(-1);
        body.text(b"");
        body.0
    }

    #[test]
    fn an_answer_is_taken_when_it_is_whole() {
        let mut arrived = BytesMut::new();
        for byte in [0, 0, 0, 9, kind::STATUS, 0, 0, 1, 2, 0, 0, 0] {
            arrived.extend_from_slice(&[byte]);
            assert!(split_packet(&mut arrived).unwrap().is_none());
        }
        arrived.extend_from_slice(&[4, 0]);
        let (id, mut reply) = split_packet(&mut arrived).unwrap().unwrap();
        assert_eq!((id, reply.kind), (0x102, kind::STATUS));
        assert_eq!(reply.fields.number(), Ok(4));
        assert_eq!(reply.fields.number(), Err(Garbled));
        assert_eq!(&arrived[..], [0]);
        assert!(split_packet(&mut BytesMut::from(&[0xff; 8][..])).is_err());
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        let read = |name: &[u8]| Fields(entry(name).into()).entry();
        let found = read(b"gr\xfcn").unwrap();
        assert_eq!(found.name, b"gr\xfcn");
        assert_eq!(found.attributes.kind(), Kind::File);
        assert_eq!(found.attributes.changed, -1);
        for name in [
            &b".."[..],
            b".",
            b"",
            b"a/b",
            b"/etc",
            b"a\0b",
            &[b'a'; 256],
        ] {
            assert_eq!(read(name), Err(Garbled), "{name:?}");
        }
        assert!(read(&[b'a'; 255]).is_ok());
    }
}
