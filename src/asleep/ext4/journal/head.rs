//! A journal's superblock, and where its log is.

use std::rc::Rc;

use super::super::bytes::{be32, byte, le16, le32, part};
use super::super::checksum::{crc32c, crc32c_without};
use super::super::error::Error;
use super::super::inode::{Inode, Kind};
use super::super::map;
use super::super::volume::{JOURNAL_MAGIC, Volume};

/// The longest journal, in blocks (mke2fs(8), `-J size`).
const LONGEST: u32 = 10_240_000;

/// Kinds of superblocks: the older one has no features.
const OLD: u32 = 3;
const NEW: u32 = 4;

/// `s_feature_compat` and `s_feature_incompat`.
const CHECKSUM: u32 = 0x1;
const WIDE: u32 = 0x2;
const ASYNC: u32 = 0x4;
const CHECKSUM_2: u32 = 0x8;
const CHECKSUM_3: u32 = 0x10;
const FAST: u32 = 0x20;
/// The features that are read: the ones above, and revoked blocks.
const READ: u32 = 0x3F;

/// CRC-32C, as `s_checksum_type`.
const CRC32C: u8 = 4;

/// How many blocks at its end are for fast commits, unless it says so
/// (`JBD2_DEFAULT_FAST_COMMIT_BLOCKS`).
const FAST_BLOCKS: u32 = 256;

/// The first tag of fast commits (`EXT4_FC_TAG_HEAD`).
const FAST_HEAD: u16 = 9;

/// A journal.
pub(super) struct Journal<'a> {
    pub(super) volume: &'a Volume,
    inode: Inode,
    /// The blocks of its log: the first, and the one after the last.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Where the log begins, and its first transaction.
    pub(super) start: u32,
    pub(super) sequence: u32,
    pub(super) features: Features,
}

/// How its blocks are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    pub(super) is_wide: bool,
    pub(super) is_async: bool,
    /// Whether a commit has the checksum of its whole transaction.
    pub(super) has_sums: bool,
    pub(super) checks: Checks,
    /// The CRC that the checksums of blocks begin with.
    pub(super) seed: u32,
}

/// The checksums of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    None,
    /// CRC-32C, of a block's data cut to 16 bits.
    Short,
    Full,
}

impl<'a> Journal<'a> {
    /// Opens the journal in this inode; none if there is nothing to replay.
    pub(super) fn open(volume: &'a Volume, number: u32) -> Result<Option<Self>, Error> {
        let inode = Inode::read(volume, number)?;
        if inode.kind() != Kind::File {
            return Err(wrong("is no file"));
        }
        let head = block(volume, &inode, 0)?;
        let head = part(&head, 0, 1024)?;
        let kind = be32(head, 4)?;
        if !head.starts_with(&JOURNAL_MAGIC) || !(kind == OLD || kind == NEW) {
            return Err(wrong("has no superblock"));
        }
        let (compatible, incompatible) = match kind {
            OLD => (0, 0),
            _ => (be32(head, 0x24)?, be32(head, 0x28)?),
        };
        if incompatible & !READ != 0 {
            let rest = incompatible & !READ;
            let what = format!("a feature of the journal that is newer than it ({rest:#x})");
            return Err(Error::Unsupported(what));
        }
        let checks = match incompatible & (CHECKSUM_2 | CHECKSUM_3) {
            0 => Checks::None,
            CHECKSUM_2 => Checks::Short,
            _ => Checks::Full,
        };
        if checks != Checks::None {
            let crc = crc32c_without(!0, head, 0xFC, 4);
            if byte(head, 0x50)? != CRC32C || crc != be32(head, 0xFC)? {
                return Err(wrong("has a wrong checksum in its superblock"));
            }
        }
        let most = inode.size / u64::from(volume.superblock.block);
        let (blocks, first) = (be32(head, 0x10)?, be32(head, 0x14)?);
        let fast = match (incompatible & FAST, be32(head, 0x54)?) {
            (0, _) => 0,
            (_, 0) => FAST_BLOCKS,
            (_, blocks) => blocks,
        };
        let last = blocks.saturating_sub(fast);
        let (sequence, start) = (be32(head, 0x18)?, be32(head, 0x1C)?);
        if be32(head, 0xC)? != volume.superblock.block
            || u64::from(blocks) > most
            || blocks > LONGEST
            || first == 0
            || first >= last
        {
            return Err(wrong("has an impossible size"));
        }
        if start == 0 {
            return Ok(None);
        }
        if !(first..last).contains(&start) {
            return Err(wrong("begins outside of itself"));
        }
        Ok(Some(Self {
            volume,
            first,
            last,
            start,
            sequence,
            features: Features {
                is_wide: incompatible & WIDE != 0,
                is_async: incompatible & ASYNC != 0,
                has_sums: compatible & CHECKSUM != 0 && checks == Checks::None,
                checks,
                seed: crc32c(!0, part(head, 0x30, 16)?),
            },
            inode,
        }))
    }

    /// The block of the disk with block `nth` of the journal.
    pub(super) fn place(&self, nth: u32) -> Result<u64, Error> {
        let run = map::find(self.volume, &self.inode, nth.into())?;
        run.start.ok_or_else(|| wrong("has a hole"))
    }

    /// Refuses fast commits after transaction `end`: they are no blocks, but what was done.
    pub(super) fn check_fast(&self, end: u32) -> Result<(), Error> {
        let most = self.inode.size / u64::from(self.volume.superblock.block);
        // Where nothing is for them, the log ends at the end.
        let first = u64::from(self.last) + 1;
        if first >= most {
            return Ok(());
        }
        let Some(start) = map::find(self.volume, &self.inode, first)?.start else {
            return Ok(());
        };
        let block = self.volume.read(start)?;
        // A tag, its length, features, and the transaction.
        let is_next = le16(&block, 0)? == FAST_HEAD && le32(&block, 8)? == end;
        if is_next {
            let what = "fast commits in a journal that was not replayed";
            return Err(Error::Unsupported(what.to_owned()));
        }
        Ok(())
    }
}

/// Block `nth` of the file with the journal.
fn block(volume: &Volume, inode: &Inode, nth: u64) -> Result<Rc<[u8]>, Error> {
    match map::find(volume, inode, nth)?.start {
        Some(start) => volume.read(start),
        None => Err(wrong("has a hole")),
    }
}

pub(super) fn wrong(what: &str) -> Error {
    Error::damaged(format!("its journal {what}"))
}
