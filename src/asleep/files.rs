//! A snapshot's files, as they are asked for.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use ext4_view::{Ext4, File};

use super::blocks::Blocks;
use super::reader::Reader;
use super::tree::{Tree, attributes, failed};
use crate::host::sftp::{Attributes, Entry, Files, SftpError};
use crate::ids::{DriveIn, DriveName};

/// What `~` is: the home of the user that containers have unless their image names another.
const HOME: &[u8] = b"/root";

/// The files of a snapshot, and those that are open.
pub(super) struct SnapshotFiles {
    tree: Tree,
    open: HashMap<u32, File>,
    last: u32,
}

impl SnapshotFiles {
    pub(super) fn open(blocks: &Blocks, place: &DriveIn<DriveName>) -> Result<Self, SftpError> {
        let reader = Reader::new(blocks.clone());
        let fs = Ext4::load(Box::new(reader)).map_err(|error| failed(&error))?;
        Ok(Self {
            tree: Tree::open(fs, place.clone())?,
            open: HashMap::new(),
            last: 0,
        })
    }
}

impl Files for SnapshotFiles {
    fn expand(&mut self, path: &[u8]) -> Result<Vec<u8>, SftpError> {
        match path.strip_prefix(b"~") {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => Ok([HOME, rest].concat()),
            _ => Err(SftpError::Refused(
                "of a drive that is asleep only the home of root is known".to_owned(),
            )),
        }
    }

    fn look(&mut self, path: &[u8], follows: bool) -> Result<Entry, SftpError> {
        self.tree.look(path, follows)
    }

    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, SftpError> {
        self.tree.list(path)
    }

    fn open(&mut self, path: &[u8]) -> Result<(Attributes, u32), SftpError> {
        let path = self.tree.file(path)?;
        let file = self.tree.fs.open(&*path).map_err(|error| failed(&error))?;
        let found = attributes(file.metadata());
        self.last = self.last.wrapping_add(1);
        self.open.insert(self.last, file);
        Ok((found, self.last))
    }

    fn read(&mut self, file: u32, at: u64, length: usize) -> Result<Bytes, SftpError> {
        let file = self.open.get_mut(&file).ok_or(SftpError::Garbled)?;
        if file.position() != at {
            file.seek_to(at).map_err(|error| failed(&error))?;
        }
        let mut data = BytesMut::zeroed(length);
        let mut read = 0;
        while read < length {
            match file
                .read_bytes(&mut data[read..])
                .map_err(|error| failed(&error))?
            {
                0 => break,
                more => read += more,
            }
        }
        data.truncate(read);
        Ok(data.freeze())
    }

    fn close(&mut self, file: u32) {
        self.open.remove(&file);
    }
}
