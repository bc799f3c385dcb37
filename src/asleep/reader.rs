//! What the library for file systems reads from: the bytes of a snapshot, as if it were a disk.

use std::error::Error;

use bytes::Bytes;
use ext4_view::Ext4Read;

use super::blocks::Blocks;
use crate::ec2::BLOCK;

/// How many blocks are read ahead once so many have followed each other: a small file costs no more
/// than its own, and a large one is soon read as fast as the line allows.
const AHEAD: [u32; 4] = [0, 4, 16, 64];

/// How many of the last blocks are remembered: between those of a file are those that say where it
/// goes on.
const REMEMBERED: usize = 4;

/// A reader's place in a snapshot.
pub(super) struct Reader {
    blocks: Blocks,
    /// The last block, which most reads go on in.
    current: Option<(u32, Option<Bytes>)>,
    recent: [u32; REMEMBERED],
    /// How many blocks followed each other.
    run: usize,
    /// The first block that was not asked for yet.
    next: u32,
}

impl Reader {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            current: None,
            recent: [u32::MAX; REMEMBERED],
            run: 0,
            next: 0,
        }
    }

    fn block(&mut self, index: u32) -> Result<Option<Bytes>, Box<dyn Error + Send + Sync>> {
        if let Some((at, block)) = &self.current
            && *at == index
        {
            return Ok(block.clone());
        }
        let follows = index > 0 && self.recent.contains(&(index - 1));
        if follows {
            self.run += 1;
        } else if !self.recent.contains(&index) {
            self.run = 0;
        }
        if !self.recent.contains(&index) {
            self.recent.rotate_right(1);
            self.recent[0] = index;
        }
        let ahead = AHEAD[self.run.min(AHEAD.len() - 1)];
        let from = if follows {
            self.next.max(index + 1)
        } else {
            index + 1
        };
        let to = if follows {
            index.saturating_add(1 + ahead)
        } else {
            from
        };
        let block = self.blocks.read(index, from..to)?;
        self.next = to.max(from);
        self.current = Some((index, block.clone()));
        Ok(block)
    }
}

impl Ext4Read for Reader {
    fn read(
        &mut self,
        start: u64,
        mut into: &mut [u8],
    ) -> Result<(), Box<dyn Error + Send + Sync + 'static>> {
        let mut at = start;
        while !into.is_empty() {
            let index = u32::try_from(at / BLOCK as u64)?;
            let offset = usize::try_from(at % BLOCK as u64)?;
            let length = into.len().min(BLOCK - offset);
            let (part, rest) = into.split_at_mut(length);
            match self.block(index)? {
                Some(block) => part.copy_from_slice(&block[offset..offset + length]),
                None => part.fill(0),
            }
            into = rest;
            at += length as u64;
        }
        Ok(())
    }
}
