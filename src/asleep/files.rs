//! A snapshot's files, as they are asked for.

use std::collections::HashMap;
use std::mem;

use bytes::{Bytes, BytesMut};
use ext4_view::{Ext4, File};

use super::blocks::Blocks;
use super::reader::{Place, Reader, Shared};
use super::tree::{Tree, attributes, failed};
use crate::ec2::BLOCK;
use crate::host::sftp::{Attributes, Entry, Files, SftpError};
use crate::ids::{DriveIn, DriveName};

/// What `~` is: the home of the user that containers have unless their image names another.
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
    file: File,
    place: Place,
}

impl SnapshotFiles {
    pub(super) fn open(blocks: &Blocks, place: &DriveIn<DriveName>) -> Result<Self, SftpError> {
        let reader = Reader::new(blocks.clone());
        let shared = reader.place();
        let fs = Ext4::load(Box::new(reader)).map_err(|error| failed(&error))?;
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
        let path = self.tree.file(path)?;
        let mut file = self.tree.fs.open(&*path).map_err(|error| failed(&error))?;
        let found = attributes(file.metadata());
        // Reads the first part of what says where its content is, so that it is not taken for content.
        // Later parts are, and each has some blocks behind it read in vain.
        seek(&mut file, BLOCK as u64)?;
        seek(&mut file, 0)?;
        self.last = self.last.wrapping_add(1);
        let place = Place::default();
        self.open.insert(self.last, Open { file, place });
        Ok((found, self.last))
    }

    fn read(&mut self, file: u32, at: u64, length: usize) -> Result<Bytes, SftpError> {
        let Open { file, place } = self.open.get_mut(&file).ok_or(SftpError::Garbled)?;
        if file.position() != at {
            seek(file, at)?;
        }
        let elsewhere = self.place.replace(mem::take(place));
        let read = content(file, length, &self.place);
        *place = self.place.replace(elsewhere);
        read
    }

    fn close(&mut self, file: u32) {
        self.open.remove(&file);
    }
}

fn seek(file: &mut File, at: u64) -> Result<(), SftpError> {
    file.seek_to(at).map_err(|error| failed(&error))
}

/// So many bytes of a file, or less at its end.
fn content(file: &mut File, length: usize, place: &Shared) -> Result<Bytes, SftpError> {
    let size = file.metadata().len();
    let mut data = BytesMut::zeroed(length);
    let mut read = 0;
    while read < length {
        place.rest(size.saturating_sub(file.position()));
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
