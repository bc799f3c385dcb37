//! A snapshot's files, as they are asked for.

use std::collections::HashMap;
use std::mem;

use bytes::{Bytes, BytesMut};

use super::blocks::Blocks;
use super::ext4::{Ext4, Inode};
use super::reader::{Place, Reader, Shared};
use super::tree::{Tree, attributes, failed};
use crate::ec2::BLOCK;
use crate::host::sftp::{Attributes, Entry, Files, MOST, SftpError};
use crate::ids::{DriveIn, DriveName};

/// The folder that `~` means: the home of the user that containers have unless their image names
/// another.
const HOME: &[u8] = b"/root";

/// The files of a snapshot, and those that are open.
pub(super) struct SnapshotFiles {
    tree: Tree,
    /// Where the reader is: in what leads to files, or in the content of the one that is read.
    place: Shared,
    open: HashMap<u32, Open>,
    last: u32,
}

/// A file, and where its content is read.
struct Open {
    file: Inode,
    place: Place,
    /// Why nothing more of it is read.
    failed: Option<SftpError>,
}

impl SnapshotFiles {
    pub(super) fn open(blocks: &Blocks, place: &DriveIn<DriveName>) -> Result<Self, SftpError> {
        let reader = Reader::new(blocks.clone());
        let shared = reader.place();
        let fs = Ext4::load(Box::new(reader)).map_err(failed)?;
        Ok(Self {
            tree: Tree::open(fs, place.clone())?,
            place: shared,
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
        let file = self.tree.file(path)?;
        let found = attributes(&file);
        // Reads the first part of what says where its content is, so that it is not taken for content.
        // Later parts are, and each has some blocks behind it read in vain.
        self.tree.fs.prepare(&file, BLOCK as u64).map_err(failed)?;
        self.tree.fs.prepare(&file, 0).map_err(failed)?;
        self.last = self.last.wrapping_add(1);
        let open = Open {
            file,
            place: Place::default(),
            failed: None,
        };
        self.open.insert(self.last, open);
        Ok((found, self.last))
    }

    fn read(&mut self, file: u32, at: u64, length: usize) -> Result<Bytes, SftpError> {
        let open = self.open.get_mut(&file).ok_or(SftpError::Garbled)?;
        if let Some(error) = &open.failed {
            return Err(error.clone());
        }
        let elsewhere = self.place.replace(mem::take(&mut open.place));
        let read = content(&self.tree.fs, &open.file, (at, length), &self.place);
        open.place = self.place.replace(elsewhere);
        open.failed = read.as_ref().err().cloned();
        read
    }

    fn close(&mut self, file: u32) {
        self.open.remove(&file);
    }
}

/// Reads `length` bytes of a file from `at` on, or less at its end.
fn content(
    fs: &Ext4,
    file: &Inode,
    (at, length): (u64, usize),
    place: &Shared,
) -> Result<Bytes, SftpError> {
    let mut data = BytesMut::zeroed(length.min(MOST));
    let mut read = 0;
    while read < data.len() {
        let at = at.saturating_add(read as u64);
        place.rest(file.size.saturating_sub(at));
        match fs.read(file, at, &mut data[read..]).map_err(failed)? {
            0 => break,
            more => read += more,
        }
    }
    data.truncate(read);
    Ok(data.freeze())
}
