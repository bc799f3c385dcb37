//! The blocks of a file system, as its journal has them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::bytes::{length, part};
use super::checksum::crc32c;
use super::error::Error;
use super::superblock::{LENGTH, START, Superblock};

/// Bytes that can be read.
pub(in crate::asleep) trait Disk {
    /// Fills `into` with what stands from byte `start` on. The error is why it cannot be had.
    fn read(&mut self, start: u64, into: &mut [u8]) -> Result<(), String>;
}

/// A block by its number.
type Kept = (u64, Rc<[u8]>);

/// How many bytes of metadata are kept: of a whole folder and its inodes.
const ROOM: u32 = 2 << 20;

/// Where a block stands in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replayed {
    /// The block of the disk that has its newest content.
    pub(super) block: u64,
    /// Whether zeros stand there for its first four bytes, which are those of a block of the journal.
    pub(super) is_escaped: bool,
    /// The checksum of what stands there, if it has one: compared when it is read, since most of it
    /// never is.
    pub(super) expected: Option<Expected>,
}

/// The CRC-32C of a block in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    /// The CRC of what comes before it.
    pub(super) start: u32,
    pub(super) checksum: u32,
    /// Whether only its lowest 16 bits are there.
    pub(super) is_short: bool,
}

/// The first bytes of what belongs to the journal itself.
pub(super) const JOURNAL_MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

/// A disk with a file system.
pub(super) struct Volume {
    disk: RefCell<Box<dyn Disk>>,
    pub(super) superblock: Superblock,
    replayed: HashMap<u64, Replayed>,
    /// The last blocks of metadata, each at the place of its number.
    kept: RefCell<Vec<Option<Kept>>>,
}

impl Volume {
    pub(super) fn open(mut disk: Box<dyn Disk>) -> Result<Self, Error> {
        let mut bytes = [0; LENGTH];
        disk.read(START, &mut bytes).map_err(Error::Disk)?;
        let superblock = Superblock::parse(&bytes)?;
        let kept = vec![None; length((ROOM / superblock.block).into())?];
        Ok(Self {
            disk: RefCell::new(disk),
            superblock,
            replayed: HashMap::new(),
            kept: RefCell::new(kept),
        })
    }

    /// Puts what the journal has in place of what the disk has.
    pub(super) fn replay(mut self, replayed: HashMap<u64, Replayed>) -> Result<Self, Error> {
        self.replayed = replayed;
        self.kept.borrow_mut().fill(None);
        let block = self.read(self.superblock.own_block())?;
        let at = length(START % u64::from(self.superblock.block))?;
        let bytes = block.get(at..).unwrap_or_default();
        let replayed = Superblock::parse(bytes)?;
        if replayed.block != self.superblock.block {
            return Err(Error::damaged("its journal changes the size of its blocks"));
        }
        self.superblock = replayed;
        Ok(self)
    }

    /// A block of metadata.
    pub(super) fn read(&self, block: u64) -> Result<Rc<[u8]>, Error> {
        let places = self.kept.borrow().len() as u64;
        let place = length(block % places.max(1))?;
        if let Some(Some((kept, bytes))) = self.kept.borrow().get(place)
            && *kept == block
        {
            return Ok(Rc::clone(bytes));
        }
        let mut bytes = vec![0; self.block_length()?];
        self.read_into(block, 0, &mut bytes)?;
        let bytes: Rc<[u8]> = bytes.into();
        if let Some(kept) = self.kept.borrow_mut().get_mut(place) {
            *kept = Some((block, Rc::clone(&bytes)));
        }
        Ok(bytes)
    }

    /// Fills `into` with what follows the first `from` bytes of a block, and with the blocks after it:
    /// as many as [`Volume::together`] has. Nothing of it is kept.
    pub(super) fn read_into(&self, block: u64, from: usize, into: &mut [u8]) -> Result<(), Error> {
        self.check(block)?;
        if let Some(replayed) = self.replayed.get(&block) {
            let bytes = self.replay_block(replayed)?;
            into.copy_from_slice(part(&bytes, from, into.len())?);
            return Ok(());
        }
        self.read_disk(block, from, into)
    }

    fn read_disk(&self, block: u64, from: usize, into: &mut [u8]) -> Result<(), Error> {
        self.check(block)?;
        let start = block * u64::from(self.superblock.block) + from as u64;
        let mut disk = self.disk.borrow_mut();
        disk.read(start, into).map_err(Error::Disk)
    }

    /// A block as it stands in the journal.
    fn replay_block(&self, replayed: &Replayed) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.block_length()?];
        self.read_disk(replayed.block, 0, &mut bytes)?;
        if let Some(expected) = replayed.expected {
            let crc = crc32c(expected.start, &bytes);
            let crc = if expected.is_short { crc & 0xFFFF } else { crc };
            if crc != expected.checksum {
                return Err(Error::damaged("its journal has a wrong checksum"));
            }
        }
        if replayed.is_escaped {
            for (byte, own) in bytes.iter_mut().zip(JOURNAL_MAGIC) {
                *byte = own;
            }
        }
        Ok(bytes)
    }

    /// How many of `blocks` from this one on stand together on the disk.
    pub(super) fn together(&self, block: u64, blocks: u64) -> u64 {
        if self.replayed.is_empty() {
            return blocks;
        }
        if self.replayed.contains_key(&block) {
            return 1;
        }
        let others = (1..blocks).take_while(|it| !self.replayed.contains_key(&(block + it)));
        1 + others.count() as u64
    }

    pub(super) fn block_length(&self) -> Result<usize, Error> {
        length(self.superblock.block.into())
    }

    /// Refuses a block that is none of the file system's.
    pub(super) fn check(&self, block: u64) -> Result<(), Error> {
        if block < self.superblock.blocks {
            return Ok(());
        }
        Err(Error::damaged(format!("block {block} is beyond its end")))
    }
}
