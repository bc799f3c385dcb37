//! A file system as its users see it.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::error::Error;
use super::inode::{Inode, Kind, ROOT};
use super::volume::{Disk, Volume};
use super::{content, folder, journal, map};

/// How many links may lead to a path, as on Linux (`path_resolution(7)`).
const LINKS: u32 = 40;

/// A file system that is only read.
pub(in crate::asleep) struct Ext4 {
    volume: Volume,
}

impl Ext4 {
    /// Reads what leads to all else, and the journal if it was not replayed.
    pub(in crate::asleep) fn load(disk: Box<dyn Disk>) -> Result<Self, Error> {
        let volume = journal::replayed(Volume::open(disk)?)?;
        Ok(Self { volume })
    }

    pub(in crate::asleep) fn root(&self) -> Result<Inode, Error> {
        self.inode(ROOT)
    }

    pub(in crate::asleep) fn inode(&self, number: u32) -> Result<Inode, Error> {
        Inode::read(&self.volume, number)
    }

    /// Finds a name in a folder; [`Error::Missing`] if nothing has, or it is none.
    pub(in crate::asleep) fn child(&self, folder: &Inode, name: &[u8]) -> Result<Inode, Error> {
        match folder::find(&self.volume, folder, name)? {
            Some(inode) => self.inode(inode),
            None => Err(Error::Missing),
        }
    }

    /// Shows the names in a folder, with their inodes, until `shown` breaks.
    pub(in crate::asleep) fn each<T>(
        &self,
        folder: &Inode,
        shown: impl FnMut(&[u8], u32) -> ControlFlow<T>,
    ) -> Result<Option<T>, Error> {
        folder::each(&self.volume, folder, shown)
    }

    pub(in crate::asleep) fn target(&self, link: &Inode) -> Result<Vec<u8>, Error> {
        content::target(&self.volume, link)
    }

    /// Reads some of what a file has from byte `at` on. Returns how many bytes: none where it ends.
    pub(in crate::asleep) fn read(
        &self,
        file: &Inode,
        at: u64,
        into: &mut [u8],
    ) -> Result<usize, Error> {
        content::read(&self.volume, file, at, into)
    }

    /// Reads what says where the content at `at` is.
    pub(in crate::asleep) fn prepare(&self, file: &Inode, at: u64) -> Result<(), Error> {
        file.readable()?;
        if !file.is_inline() && at < file.size {
            map::find(
                &self.volume,
                file,
                at / u64::from(self.volume.superblock.block),
            )?;
        }
        Ok(())
    }

    /// Finds a path from the root on, whose links are followed on the drive itself.
    pub(in crate::asleep) fn find(&self, path: &[u8]) -> Result<Inode, Error> {
        let mut above = vec![self.root()?];
        let mut rest: VecDeque<Vec<u8>> = names(path).collect();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            let Some(folder) = above.last() else {
                return Err(Error::Missing);
            };
            if name == b".." {
                if above.len() > 1 {
                    above.pop();
                }
                continue;
            }
            let found = self.child(folder, &name)?;
            if found.kind() != Kind::Link {
                above.push(found);
                continue;
            }
            links += 1;
            if links > LINKS {
                return Err(Error::damaged("too many links lead to a record"));
            }
            let target = self.target(&found)?;
            if target.starts_with(b"/") {
                above.truncate(1);
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(name);
            }
        }
        above.pop().ok_or(Error::Missing)
    }

    /// All of the file at a path ([`Ext4::find`]), of at most `most` bytes; [`Error::Missing`] if it is
    /// no file.
    pub(in crate::asleep) fn record(&self, path: &[u8], most: u64) -> Result<Vec<u8>, Error> {
        let found = self.find(path)?;
        if found.kind() != Kind::File {
            return Err(Error::Missing);
        }
        content::whole(&self.volume, &found, most)
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.filter(|name| !matches!(*name, b"" | b"."));
    names.map(<[u8]>::to_vec)
}
