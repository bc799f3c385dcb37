//! What the library for file systems reads from: the bytes of a snapshot, as if it were a disk.

use std::error::Error;
use std::ops::Range;

use bytes::Bytes;
use ext4_view::Ext4Read;

use super::blocks::Blocks;
use crate::ec2::BLOCK;

/// The most blocks that are read ahead: with one that is waited for, all that are asked for at once.
const AHEAD: u32 = 63;

/// From how many blocks on a run is one of a file's content.
const LONG: u32 = 4;

/// How many of the last blocks are remembered: between those of a file are those that say where it
/// goes on.
const REMEMBERED: usize = 4;

/// A reader of a snapshot.
pub(super) struct Reader {
    blocks: Blocks,
    /// The last block, which most reads go on in.
    current: Option<(u32, Option<Bytes>)>,
    place: Place,
}

/// Where a reader is, and how it got there.
#[derive(Default)]
struct Place {
    recent: [Option<u32>; REMEMBERED],
    /// How many blocks followed each other.
    run: u32,
    /// How many usually do: the length of the extents of the files that are read.
    usual: u32,
    /// The first block that was not asked for yet.
    next: u32,
}

impl Reader {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            current: None,
            place: Place::default(),
        }
    }

    fn block(&mut self, index: u32) -> Result<Option<Bytes>, Box<dyn Error + Send + Sync>> {
        if let Some((at, block)) = &self.current
            && *at == index
        {
            return Ok(block.clone());
        }
        let ahead = self.place.step(index);
        let block = self.blocks.read(index, ahead)?;
        self.current = Some((index, block.clone()));
        Ok(block)
    }
}

impl Place {
    /// How many blocks after the present one are worth asking for: the rest of a run as usual, and
    /// after that as many as it is longer. What is asked for in vain is paid for all the same.
    fn ahead(&self) -> u32 {
        self.run.abs_diff(self.usual).min(AHEAD)
    }

    /// Goes to block `index`. Returns what to ask for at the same time.
    fn step(&mut self, index: u32) -> Range<u32> {
        let none = index..index;
        if let Some(at) = self.recent.iter().position(|it| *it == Some(index)) {
            self.recent[..=at].rotate_right(1);
            return none;
        }
        let follows = index > 0 && self.recent.contains(&Some(index - 1));
        self.recent.rotate_right(1);
        self.recent[0] = Some(index);
        if !follows {
            if self.run >= LONG {
                let usual = if self.usual == 0 {
                    self.run
                } else {
                    self.usual
                };
                self.usual = self.run.midpoint(usual);
            }
            self.run = 0;
            self.next = index + 1;
            return none;
        }
        self.run += 1;
        let from = self.next.max(index + 1);
        self.next = index.saturating_add(1 + self.ahead()).max(from);
        from..self.next
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for beside the blocks of these extents, which are read one after the other.
    fn asked(extents: &[Range<u32>]) -> (usize, usize) {
        let (mut recent, mut ahead) = (Vec::new(), Vec::new());
        let mut place = Place::default();
        for index in extents.iter().cloned().flatten() {
            recent.push(index);
            ahead.extend(place.step(index));
        }
        let in_vain = ahead.iter().filter(|index| !recent.contains(index)).count();
        ahead.sort_unstable();
        let length = ahead.len();
        ahead.dedup();
        assert_eq!(ahead.len(), length, "something is asked for twice");
        (length, in_vain)
    }

    #[test]
    fn small_files_cost_no_more_than_their_blocks_and_large_ones_little_more() {
        let scattered: Vec<Range<u32>> = (0..200).map(|at| at * 1000..at * 1000 + 1).collect();
        assert_eq!(asked(&scattered), (0, 0));
        let (ahead, in_vain) = asked(&[0..1, 7..2055]);
        assert!(ahead > 1900 && in_vain <= 63, "{ahead}, {in_vain}");
        // Eight extents: what follows the first is in vain, and then it is known how long they are.
        let extents: Vec<Range<u32>> = (0..8).map(|at| at * 9000..at * 9000 + 256).collect();
        let (ahead, in_vain) = asked(&extents);
        assert!(ahead > 1900 && in_vain < 600, "{ahead}, {in_vain}");
        let short: Vec<Range<u32>> = (0..64).map(|at| at * 9000..at * 9000 + 32).collect();
        let (ahead, in_vain) = asked(&short);
        assert!(ahead > 1800 && in_vain < 100, "{ahead}, {in_vain}");
    }

    #[test]
    fn what_lies_between_two_blocks_of_a_file_ends_no_run() {
        let mut place = Place::default();
        let mut ahead = 0;
        for index in 100..164 {
            ahead += place.step(index).len();
            ahead += place.step(5).len();
        }
        assert!(ahead >= 63, "{ahead}");
    }
}
