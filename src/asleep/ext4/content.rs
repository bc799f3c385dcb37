//! The content of files and the targets of links.

use super::bytes::length;
use super::error::Error;
use super::inode::{Inode, Kind};
use super::map;
use super::volume::Volume;

/// A reading of a file ends at a multiple of so many bytes on the disk: 512 KiB, which whoever has the
/// bytes has together.
const PIECE: u64 = 512 << 10;

/// The longest target of a link (`PATH_MAX`).
const LONGEST: u64 = 4096;

/// Fills the beginning of `into` with what a file has from byte `at` on: at least one byte unless it
/// ends there. Returns how many bytes that are.
pub(super) fn read(
    volume: &Volume,
    inode: &Inode,
    at: u64,
    into: &mut [u8],
) -> Result<usize, Error> {
    inode.readable()?;
    let rest = inode.size.saturating_sub(at);
    let most = usize::try_from(rest).map_or(into.len(), |rest| rest.min(into.len()));
    let into = into.get_mut(..most).unwrap_or_default();
    if into.is_empty() {
        return Ok(0);
    }
    if inode.is_inline() {
        let content = inode.places.iter().chain(inode.beside.iter());
        // What is left of its length is a hole.
        let content = content.copied().chain(std::iter::repeat(0));
        for (byte, content) in into.iter_mut().zip(content.skip(length(at)?)) {
            *byte = content;
        }
        return Ok(most);
    }
    let block = u64::from(volume.superblock.block);
    let run = map::find(volume, inode, at / block)?;
    let from = at % block;
    let Some(start) = run.start else {
        let most = within(run.blocks * block - from, most);
        let into = into.get_mut(..most).unwrap_or_default();
        into.fill(0);
        return Ok(most);
    };
    let wanted = (from + most as u64).div_ceil(block).min(run.blocks);
    let together = volume.together(start, wanted) * block - from;
    let to_border = PIECE - (start * block + from) % PIECE;
    let most = within(together.min(to_border), most);
    let into = into.get_mut(..most).unwrap_or_default();
    volume.read_into(start, length(from)?, into)?;
    Ok(most)
}

fn within(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| bytes.min(most))
}

/// All of a file of at most `most` bytes.
pub(super) fn whole(volume: &Volume, inode: &Inode, most: u64) -> Result<Vec<u8>, Error> {
    if inode.size > most {
        let why = format!("a record of {} bytes is too long", inode.size);
        return Err(Error::TooLarge(why));
    }
    let mut content = vec![0; length(inode.size)?];
    let mut at = 0;
    while at < content.len() {
        let into = content.get_mut(at..).unwrap_or_default();
        at += read(volume, inode, at as u64, into)?;
    }
    Ok(content)
}

/// The target of a link.
pub(super) fn target(volume: &Volume, inode: &Inode) -> Result<Vec<u8>, Error> {
    if inode.kind() != Kind::Link {
        return Err(inode.wrong("is no link"));
    }
    inode.readable()?;
    if inode.size == 0 || inode.size > LONGEST {
        return Err(inode.wrong("is a link of an impossible length"));
    }
    if inode.is_short_link() {
        let target = inode.places.get(..length(inode.size)?);
        return Ok(target.unwrap_or_default().to_vec());
    }
    whole(volume, inode, LONGEST)
}
