//! The index of a large folder: a tree by the hashes of its names.

use std::rc::Rc;

use super::bytes::{byte, le16, le32};
use super::error::Error;
use super::hash::{Version, hash};
use super::inode::Inode;
use super::map;
use super::volume::Volume;

/// How deep a tree is at most, with `large_dir` (`EXT4_HTREE_LEVEL`).
const DEEPEST: u8 = 3;

/// Where the root's entries begin, behind `.`, `..` and what is said of the tree; and those of the
/// other nodes, behind an entry without a name.
const ROOT_ENTRIES: usize = 32;
const NODE_ENTRIES: usize = 8;

/// How many blocks may have a name: a hash that is the same in more has been made so.
const MOST: usize = 1024;

/// The blocks of the folder that may have this name; none if its index is not one that is known,
/// and all have to be looked through.
pub(super) fn blocks(
    volume: &Volume,
    folder: &Inode,
    name: &[u8],
) -> Result<Option<Vec<u64>>, Error> {
    let root = node(volume, folder, 0)?;
    let (version, length, levels) = (byte(&root, 28)?, byte(&root, 29)?, byte(&root, 30)?);
    let version = Version::parse(version, volume.superblock.hash_is_signed);
    let (Some(version), 8, 0..=DEEPEST) = (version, length, levels) else {
        return Ok(None);
    };
    let hash = hash(version, volume.superblock.hash_seed, name);
    let mut found = Vec::new();
    let tree = Tree {
        volume,
        folder,
        hash,
    };
    tree.add(&root, ROOT_ENTRIES, levels, &mut found)?;
    Ok(Some(found))
}

fn node(volume: &Volume, folder: &Inode, nth: u64) -> Result<Rc<[u8]>, Error> {
    match map::find(volume, folder, nth)?.start {
        Some(start) => volume.read(start),
        None => Err(folder.wrong("has an index with a hole")),
    }
}

struct Tree<'a> {
    volume: &'a Volume,
    folder: &'a Inode,
    hash: u32,
}

impl Tree<'_> {
    /// Adds the blocks that may have the hash, by a node with so many levels below it.
    fn add(
        &self,
        node: &[u8],
        start: usize,
        levels: u8,
        found: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let wrong = || self.folder.wrong("has a wrong index");
        let entries = usize::from(le16(node, start + 2)?);
        if entries == 0 || start + 8 * entries > node.len() {
            return Err(wrong());
        }
        // The first entry has no hash: there the numbers of entries stand.
        let hash_at = |nth: usize| le32(node, start + 8 * nth);
        let mut nth = 0;
        while nth + 1 < entries && hash_at(nth + 1)? <= self.hash {
            nth += 1;
        }
        loop {
            let block = u64::from(le32(node, start + 8 * nth + 4)? & 0x0FFF_FFFF);
            if levels == 0 {
                if found.len() == MOST {
                    return Err(wrong());
                }
                found.push(block);
            } else {
                let below = self::node(self.volume, self.folder, block)?;
                self.add(&below, NODE_ENTRIES, levels - 1, found)?;
            }
            nth += 1;
            // The lowest bit says that names with the hash go on there.
            if nth >= entries || hash_at(nth)? != self.hash | 1 {
                return Ok(());
            }
        }
    }
}
