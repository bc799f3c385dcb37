//! Inodes: what a file, folder or link is.

use std::rc::Rc;

use super::bytes::{byte, joined, le16, le32, length, part};
use super::checksum::{crc32c, crc32c_without};
use super::error::Error;
use super::volume::Volume;

/// The inode of the topmost folder.
pub(super) const ROOT: u32 = 2;

/// The bytes that every inode has.
const OLD: usize = 128;

/// `i_flags`.
const ENCRYPTED: u32 = 0x800;
const INDEXED: u32 = 0x1000;
const EXTENTS: u32 = 0x8_0000;
const INLINE: u32 = 0x1000_0000;
const CASE_FOLDED: u32 = 0x4000_0000;

/// The first bytes of attributes in an inode, and the attribute that has the rest of its content:
/// its name below `system` ("fs/ext4/xattr.h").
const ATTRIBUTES: u32 = 0xEA02_0000;
const SYSTEM: u8 = 7;
const DATA: &[u8] = b"data";

/// The kinds of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::asleep) enum Kind {
    File,
    Folder,
    Link,
    CharacterDevice,
    /// A device of blocks, a pipe or a socket.
    Other,
}

/// A file, folder, link or anything else.
#[derive(Clone)]
pub(in crate::asleep) struct Inode {
    pub(in crate::asleep) number: u32,
    /// As `st_mode` (inode(7)).
    pub(in crate::asleep) mode: u16,
    /// In bytes.
    pub(in crate::asleep) size: u64,
    /// When it was changed last, in seconds since 1970, and nanoseconds: less than a second.
    pub(in crate::asleep) changed: (i64, u32),
    flags: u32,
    /// The CRC that the checksums of its parts begin with.
    pub(super) seed: Option<u32>,
    /// Where its content is, or its content.
    pub(super) places: [u8; 60],
    /// The content beside that of an inode that has it all.
    pub(super) beside: Rc<[u8]>,
}

impl Inode {
    /// Reads the inode of this number.
    pub(super) fn read(volume: &Volume, number: u32) -> Result<Self, Error> {
        let superblock = &volume.superblock;
        if number == 0 || number > superblock.inodes {
            return Err(Error::damaged(format!("there is no inode {number}")));
        }
        let (group, nth) = (
            (number - 1) / superblock.inodes_per_group,
            (number - 1) % superblock.inodes_per_group,
        );
        let start = u64::from(nth) * u64::from(superblock.inode);
        let (block, at) = (
            start / u64::from(superblock.block),
            length(start % u64::from(superblock.block))?,
        );
        let block = table(volume, group.into())?.checked_add(block);
        let block = block.ok_or_else(|| Error::damaged("a group is out of range"))?;
        let block = volume.read(block)?;
        let bytes = part(&block, at, superblock.inode.into())?;
        Self::parse(volume, number, bytes)
    }

    fn parse(volume: &Volume, number: u32, bytes: &[u8]) -> Result<Self, Error> {
        let mode = le16(bytes, 0)?;
        let extra = if bytes.len() > OLD {
            usize::from(le16(bytes, OLD)?)
        } else {
            0
        };
        if extra % 4 != 0 || OLD + extra > bytes.len() {
            return Err(wrong(number, "has an impossible size"));
        }
        let seed = seed(volume, number, bytes, extra)?;
        let kind = kind(mode).ok_or_else(|| wrong(number, "is nothing that is known"))?;
        let flags = le32(bytes, 0x20)?;
        let large = kind == Kind::File || volume.superblock.has_large_folders;
        let high = if large { le32(bytes, 0x6C)? } else { 0 };
        let size = joined(high, le32(bytes, 0x4)?);
        if i64::try_from(size).is_err() {
            return Err(wrong(number, "has an impossible length"));
        }
        let mut places = [0; 60];
        places.copy_from_slice(part(bytes, 0x28, 60)?);
        let beside = if flags & INLINE != 0 {
            inline_content(part(bytes, OLD + extra, bytes.len() - OLD - extra)?)?
        } else {
            Rc::default()
        };
        // The field of its nanoseconds ends 12 bytes after the old ones.
        let beyond = if extra >= 12 { le32(bytes, 0x88)? } else { 0 };
        Ok(Self {
            number,
            mode,
            size,
            changed: time(le32(bytes, 0x10)?, beyond),
            flags,
            seed,
            places,
            beside,
        })
    }

    pub(in crate::asleep) fn kind(&self) -> Kind {
        kind(self.mode).unwrap_or(Kind::Other)
    }

    pub(in crate::asleep) fn is_root(&self) -> bool {
        self.number == ROOT
    }

    pub(super) fn has_extents(&self) -> bool {
        self.flags & EXTENTS != 0
    }

    pub(super) fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    pub(super) fn has_index(&self) -> bool {
        self.flags & INDEXED != 0
    }

    /// Whether the names of this folder are found by their hashes, byte by byte.
    pub(super) fn is_indexed(&self) -> bool {
        self.flags & (INDEXED | CASE_FOLDED | INLINE) == INDEXED
    }

    /// Whether a link's target is in the inode.
    pub(super) fn is_short_link(&self) -> bool {
        !self.is_inline() && !self.has_extents() && self.size < self.places.len() as u64
    }

    /// Refuses what is encrypted.
    pub(super) fn readable(&self) -> Result<(), Error> {
        if self.flags & ENCRYPTED == 0 {
            return Ok(());
        }
        Err(Error::Unsupported("encryption (fscrypt)".to_owned()))
    }

    pub(super) fn wrong(&self, what: &str) -> Error {
        wrong(self.number, what)
    }
}

fn wrong(number: u32, what: &str) -> Error {
    Error::damaged(format!("inode {number} {what}"))
}

fn kind(mode: u16) -> Option<Kind> {
    Some(match mode & 0o170_000 {
        0o100_000 => Kind::File,
        0o040_000 => Kind::Folder,
        0o120_000 => Kind::Link,
        0o020_000 => Kind::CharacterDevice,
        0o060_000 | 0o010_000 | 0o140_000 => Kind::Other,
        _ => return None,
    })
}

/// A time of these fields, whose lowest two bits of `more` count the 2^32 seconds that have gone
/// since 1901 (`EXT4_EPOCH_BITS`).
fn time(seconds: u32, more: u32) -> (i64, u32) {
    let seconds = i64::from(seconds.cast_signed()) + (i64::from(more & 3) << 32);
    (seconds, (more >> 2).min(999_999_999))
}

/// The first block of a group's inodes.
fn table(volume: &Volume, group: u64) -> Result<u64, Error> {
    let superblock = &volume.superblock;
    if group >= superblock.groups() {
        return Err(Error::damaged(format!("there is no group {group}")));
    }
    let (block, at) = superblock.descriptor_place(group);
    let size = usize::from(superblock.descriptor);
    let block = volume.read(block)?;
    let bytes = part(&block, at, size)?;
    if let Some(seed) = superblock.seed {
        let number = u32::try_from(group).unwrap_or(u32::MAX);
        let crc = crc32c(seed, &number.to_le_bytes());
        let crc = crc32c_without(crc, bytes, 0x1E, 2);
        if crc & 0xFFFF != u32::from(le16(bytes, 0x1E)?) {
            let what = format!("the checksum of group {group} is wrong");
            return Err(Error::damaged(what));
        }
    }
    let high = if size >= 64 { le32(bytes, 0x28)? } else { 0 };
    Ok(joined(high, le32(bytes, 0x8)?))
}

/// Checks an inode's checksum, where it has one. Returns what those of its content begin with.
fn seed(volume: &Volume, number: u32, bytes: &[u8], extra: usize) -> Result<Option<u32>, Error> {
    let Some(seed) = volume.superblock.seed else {
        return Ok(None);
    };
    let seed = crc32c(seed, &number.to_le_bytes());
    let seed = crc32c(seed, part(bytes, 0x64, 4)?);
    let (low, rest) = bytes.split_at(OLD.min(bytes.len()));
    let crc = crc32c_without(seed, low, 0x7C, 2);
    let is_long = extra >= 4;
    let (crc, recorded) = if is_long {
        let recorded = u32::from(le16(bytes, 0x82)?) << 16 | u32::from(le16(bytes, 0x7C)?);
        (crc32c_without(crc, rest, 2, 2), recorded)
    } else {
        (crc32c(crc, rest) & 0xFFFF, le16(bytes, 0x7C)?.into())
    };
    // One of zeros was never used, and is refused as what it is.
    if crc != recorded && bytes.iter().any(|byte| *byte != 0) {
        return Err(wrong(number, "has a wrong checksum"));
    }
    Ok(Some(seed))
}

/// The content that stands among the attributes `bytes` of an inode.
fn inline_content(bytes: &[u8]) -> Result<Rc<[u8]>, Error> {
    if bytes.len() < 4 || le32(bytes, 0)? != ATTRIBUTES {
        return Ok(Rc::default());
    }
    let bytes = bytes.get(4..).unwrap_or_default();
    let mut at = 0;
    // The list ends with four zeros.
    while bytes.len().saturating_sub(at) >= 16 && le32(bytes, at)? != 0 {
        let name = usize::from(byte(bytes, at)?);
        if byte(bytes, at + 1)? == SYSTEM && part(bytes, at + 16, name)? == DATA {
            let value = usize::from(le16(bytes, at + 2)?);
            let size = length(le32(bytes, at + 8)?.into())?;
            return Ok(part(bytes, value, size)?.into());
        }
        at += 16 + name.next_multiple_of(4);
    }
    Ok(Rc::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_kernels_table() {
        // *ext4 Data Structures and Algorithms*, Inode Timestamps: extra bits and the sign.
        for (seconds, more, expected) in [
            (0x8000_0000, 0, -0x8000_0000),
            (0xFFFF_FFFF, 0, -1),
            (0, 0, 0),
            (0x7FFF_FFFF, 0, 0x7FFF_FFFF),
            (0x8000_0000, 1, 0x8000_0000),
            (0xFFFF_FFFF, 1, 0xFFFF_FFFF),
            (0, 1, 0x1_0000_0000),
            (0x7FFF_FFFF, 3, 0x3_7FFF_FFFF),
        ] {
            assert_eq!(time(seconds, more), (expected, 0));
        }
        assert_eq!(time(5, 7 << 2 | 1), (0x1_0000_0005, 7));
        assert_eq!(time(5, !0), (0x3_0000_0005, 999_999_999));
    }
}
