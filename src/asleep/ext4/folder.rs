//! The names in folders.

use std::ops::ControlFlow;

use super::bytes::{byte, le16, le32};
use super::checksum::crc32c;
use super::error::Error;
use super::index;
use super::inode::{Inode, Kind};
use super::map;
use super::volume::Volume;

/// The most blocks of a folder that are read: 4 GiB of the usual ones, 50 million names. Without
/// `large_dir` the kernel makes none that is half as long.
const MOST: u64 = 1 << 20;

/// The bytes of an entry before its name.
const HEAD: usize = 8;

/// The end of a block of names with a checksum: an entry of this length and kind,
/// without a name (`struct ext4_dir_entry_tail`).
const TAIL: usize = 12;
const TAIL_HEAD: [u8; 8] = [0, 0, 0, 0, 12, 0, 0, 0xDE];

/// Shows each name of a folder but `.` and `..`, with its inode, until `shown` breaks.
pub(super) fn each<T>(
    volume: &Volume,
    folder: &Inode,
    mut shown: impl FnMut(&[u8], u32) -> ControlFlow<T>,
) -> Result<Option<T>, Error> {
    check(folder)?;
    if folder.is_inline() {
        // The first four bytes are the folder above.
        let own = folder.places.get(4..).unwrap_or_default();
        for part in [own, &folder.beside] {
            if let Some(found) = names(volume, folder, part, &mut shown)? {
                return Ok(Some(found));
            }
        }
        return Ok(None);
    }
    let blocks = folder.size.div_ceil(volume.superblock.block.into());
    if blocks > MOST {
        let why = format!("a folder of {} bytes is too long", folder.size);
        return Err(Error::TooLarge(why));
    }
    let mut nth = 0;
    while nth < blocks {
        let run = map::find(volume, folder, nth)?;
        let count = run.blocks.min(blocks - nth);
        if let Some(start) = run.start {
            for more in 0..count {
                let block = volume.read(start + more)?;
                let block = checked(folder, nth + more, &block)?;
                if let Some(found) = names(volume, folder, block, &mut shown)? {
                    return Ok(Some(found));
                }
            }
        }
        nth += count;
    }
    Ok(None)
}

/// The inode with this name in a folder, if there is one.
pub(super) fn find(volume: &Volume, folder: &Inode, name: &[u8]) -> Result<Option<u32>, Error> {
    check(folder)?;
    let mut is_it = |found: &[u8], inode| {
        if found == name {
            ControlFlow::Break(inode)
        } else {
            ControlFlow::Continue(())
        }
    };
    if folder.is_indexed()
        && let Some(blocks) = index::blocks(volume, folder, name)?
    {
        for nth in blocks {
            let Some(start) = map::find(volume, folder, nth)?.start else {
                return Err(folder.wrong("has an index that leads to a hole"));
            };
            let block = volume.read(start)?;
            let block = checked(folder, nth, &block)?;
            if let Some(found) = names(volume, folder, block, &mut is_it)? {
                return Ok(Some(found));
            }
        }
        return Ok(None);
    }
    each(volume, folder, is_it)
}

fn check(folder: &Inode) -> Result<(), Error> {
    if folder.kind() != Kind::Folder {
        return Err(Error::Missing);
    }
    folder.readable()
}

/// A block of names without the checksum at its end, which is compared.
fn checked<'a>(folder: &Inode, nth: u64, block: &'a [u8]) -> Result<&'a [u8], Error> {
    let (Some(seed), Some((names, tail))) = (folder.seed, block.split_last_chunk::<TAIL>()) else {
        return Ok(block);
    };
    // The blocks of an index have another one where this one is, and no names.
    let is_index = folder.has_index() && (nth == 0 || is_node(block)?);
    if is_index || !tail.starts_with(&TAIL_HEAD) {
        return Ok(block);
    }
    if crc32c(seed, names) != le32(tail, 8)? {
        return Err(folder.wrong("has a wrong checksum in a block of names"));
    }
    Ok(names)
}

/// Whether all of a block is one entry without an inode: a node of an index.
fn is_node(block: &[u8]) -> Result<bool, Error> {
    let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
    Ok(le32(block, 0)? == 0 && entry_length(length, le16(block, 4)?) == block.len())
}

/// Shows each name in these bytes.
fn names<T>(
    volume: &Volume,
    folder: &Inode,
    bytes: &[u8],
    shown: &mut impl FnMut(&[u8], u32) -> ControlFlow<T>,
) -> Result<Option<T>, Error> {
    let wrong = || folder.wrong("has a wrong entry");
    let superblock = &volume.superblock;
    let mut rest = bytes;
    while rest.len() >= HEAD {
        let inode = le32(rest, 0)?;
        let whole = entry_length(superblock.block, le16(rest, 4)?);
        let length = if superblock.has_file_types {
            byte(rest, 6)?.into()
        } else {
            usize::from(le16(rest, 6)?)
        };
        if whole < HEAD || !whole.is_multiple_of(4) {
            return Err(wrong());
        }
        let (entry, after) = rest.split_at_checked(whole).ok_or_else(wrong)?;
        rest = after;
        if inode == 0 {
            continue;
        }
        let name = entry.get(HEAD..HEAD + length).ok_or_else(wrong)?;
        if matches!(name, b"." | b"..") {
            continue;
        }
        let is_name = !name.is_empty() && name.len() <= 255;
        if !is_name || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(wrong());
        }
        if inode > superblock.inodes {
            return Err(wrong());
        }
        if let ControlFlow::Break(found) = shown(name, inode) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The bytes of an entry: those of a block of 64 KiB do not fit (`ext4_rec_len_from_disk`).
fn entry_length(block: u32, length: u16) -> usize {
    let length = usize::from(length);
    match length {
        _ if block < 64 << 10 => length,
        0 | 0xFFFF => 64 << 10,
        _ => (length & 0xFFFC) | ((length & 3) << 16),
    }
}
