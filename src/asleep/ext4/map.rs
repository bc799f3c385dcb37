//! Where the content of a file or folder stands: by extents, or by the older maps of blocks.

use std::rc::Rc;

use super::bytes::{byte, joined, le16, le32, length};
use super::checksum::crc32c;
use super::error::Error;
use super::inode::Inode;
use super::volume::Volume;

/// The first bytes of a node of extents.
const MAGIC: u16 = 0xF30A;

/// How deep a tree of extents is at most (`EXT4_MAX_EXTENT_DEPTH`).
const DEEPEST: u16 = 5;

/// The bytes of a node's head, and of what is in it.
const HEAD: usize = 12;
const ENTRY: usize = 12;

/// An extent with more blocks was allocated and not written.
const WRITTEN: u16 = 32_768;

/// How many blocks the maps of an inode have at their lowest level.
const DIRECT: u64 = 12;

/// Blocks that follow each other, in a file and on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The first on the disk; none where nothing was written.
    pub(super) start: Option<u64>,
    /// How many there are, at least one: of a hole perhaps not all.
    pub(super) blocks: u64,
}

impl Run {
    fn hole(blocks: u64) -> Self {
        Self {
            start: None,
            blocks,
        }
    }
}

/// Finds block `nth` of what an inode has.
pub(super) fn find(volume: &Volume, inode: &Inode, nth: u64) -> Result<Run, Error> {
    let found = if inode.has_extents() {
        by_extents(volume, inode, nth)?
    } else {
        by_maps(volume, inode, nth)?
    };
    if let Some(start) = found.start {
        let first = u64::from(volume.superblock.first_data_block);
        if start < first.max(1) {
            return Err(inode.wrong("has a block where the superblock is"));
        }
        volume.check(start.saturating_add(found.blocks - 1))?;
    }
    Ok(found)
}

fn by_extents(volume: &Volume, inode: &Inode, nth: u64) -> Result<Run, Error> {
    let wrong = || inode.wrong("has a wrong tree of extents");
    let nth32 = u32::try_from(nth).map_err(|_| wrong())?;
    let mut node: Rc<[u8]> = inode.places.as_slice().into();
    // What the node is for ends here.
    let mut end = 1_u64 << 32;
    let mut deepest = DEEPEST;
    let mut is_root = true;
    loop {
        let (magic, entries, most, depth) = (
            le16(&node, 0)?,
            usize::from(le16(&node, 2)?),
            usize::from(le16(&node, 4)?),
            le16(&node, 6)?,
        );
        let room = (node.len() - HEAD) / ENTRY;
        if magic != MAGIC || entries > most || most > room || depth > deepest {
            return Err(wrong());
        }
        if !is_root {
            check_node(inode, &node, HEAD + ENTRY * most)?;
        }
        // The last one that does not begin later.
        let mut found = None;
        for at in (0..entries).map(|entry| HEAD + ENTRY * entry) {
            let first = le32(&node, at)?;
            if first > nth32 {
                end = end.min(first.into());
                break;
            }
            found = Some((at, u64::from(first)));
        }
        let Some((at, first)) = found else {
            return Ok(Run::hole(end - nth));
        };
        if depth == 0 {
            return extent(&node, at, nth - first, end - nth);
        }
        let below = joined(le16(&node, at + 8)?.into(), le32(&node, at + 4)?);
        node = volume.read(below)?;
        deepest = depth - 1;
        is_root = false;
        // All leaves are equally deep.
        if le16(&node, 6)? != deepest {
            return Err(wrong());
        }
    }
}

/// The block that is so many after the first of the extent `at`; `rest` blocks are before the next.
fn extent(node: &[u8], at: usize, skipped: u64, rest: u64) -> Result<Run, Error> {
    let blocks = le16(node, at + 4)?;
    let start = joined(le16(node, at + 6)?.into(), le32(node, at + 8)?);
    let (blocks, is_written) = match blocks {
        ..=WRITTEN => (u64::from(blocks), true),
        _ => (u64::from(blocks - WRITTEN), false),
    };
    if skipped >= blocks {
        return Ok(Run::hole(rest));
    }
    Ok(Run {
        start: is_written.then_some(start + skipped),
        blocks: (blocks - skipped).min(rest),
    })
}

fn check_node(inode: &Inode, node: &[u8], tail: usize) -> Result<(), Error> {
    let Some(seed) = inode.seed else {
        return Ok(());
    };
    let (covered, rest) = node.split_at(tail.min(node.len()));
    // A node without room for it has none.
    if rest.len() >= 4 && crc32c(seed, covered) != le32(rest, 0)? {
        return Err(inode.wrong("has a wrong checksum in its extents"));
    }
    Ok(())
}

fn by_maps(volume: &Volume, inode: &Inode, nth: u64) -> Result<Run, Error> {
    let in_a_block = u64::from(volume.superblock.block / 4);
    if nth < DIRECT {
        let direct = inode.places.get(..48).unwrap_or_default();
        return pointers(direct, nth);
    }
    let mut rest = nth - DIRECT;
    // How many blocks a pointer of this level is for.
    let mut span = in_a_block;
    for level in 0..3 {
        if rest >= span {
            rest -= span;
            span = span.saturating_mul(in_a_block);
            continue;
        }
        let mut block = le32(&inode.places, 48 + 4 * level)?;
        loop {
            if block == 0 {
                return Ok(Run::hole(span - rest));
            }
            span /= in_a_block;
            let node = volume.read(block.into())?;
            if span == 1 {
                return pointers(&node, rest);
            }
            block = le32(&node, 4 * length(rest / span)?)?;
            rest %= span;
        }
    }
    Err(inode.wrong("is longer than its blocks can be"))
}

/// The run that begins with pointer `nth` of these.
fn pointers(bytes: &[u8], nth: u64) -> Result<Run, Error> {
    let mut rest = bytes.get(4 * length(nth)?..).unwrap_or_default();
    let first = le32(rest, 0)?;
    let mut blocks = 0;
    while byte(rest, 0).is_ok() {
        let expected = match first {
            0 => Some(0),
            first => first.checked_add(blocks),
        };
        if Some(le32(rest, 0)?) != expected {
            break;
        }
        blocks += 1;
        rest = rest.get(4..).unwrap_or_default();
    }
    Ok(Run {
        start: (first != 0).then_some(first.into()),
        blocks: blocks.into(),
    })
}
