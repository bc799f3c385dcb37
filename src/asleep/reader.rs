//! The disk that a file system is read from: the bytes of a snapshot, as if it were a disk.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;

use super::blocks::{Blocks, UNDER_WAY, Unread};
use super::ext4::Disk;
use super::kept::Purpose;
use crate::ec2::BLOCK;

/// The most blocks that are read ahead: with one that is waited for, all that are asked for at once.
const AHEAD: u32 = UNDER_WAY - 1;

/// How many are read ahead of a file's first block, of which nothing but the length is known.
const FIRST: u32 = 16;

/// The blocks of the largest disk that EC2 has: 64 TiB.
const BLOCKS: u32 = 1 << 27;

/// How many of the last blocks are remembered: between those of a file are those that say where it
/// goes on.
const REMEMBERED: usize = 4;

/// A reader of a snapshot.
pub(super) struct Reader {
    blocks: Blocks,
    /// The last block, which most reads go on in.
    current: Option<(u32, Option<Bytes>)>,
    place: Shared,
}

/// The place of a reader, which others set: a reader alone sees no files.
#[derive(Clone, Default)]
pub(super) struct Shared(Rc<RefCell<Place>>);

/// Where a reader is, in a file or in what leads to files, and how it got there.
#[derive(Default)]
pub(super) struct Place {
    /// How many bytes of a file's content are still to come; none of what leads to files.
    rest: u64,
    recent: [Option<u32>; REMEMBERED],
    /// How many blocks followed each other.
    run: u32,
    /// How many usually do, once that is known: the length of the file's extents.
    usual: Option<u32>,
    /// The first block that was not asked for yet.
    next: u32,
}

impl Reader {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            current: None,
            place: Shared::default(),
        }
    }

    /// Where it is, from now on.
    pub(super) fn place(&self) -> Shared {
        self.place.clone()
    }

    /// Block `index`, of which the bytes from `offset` on are read.
    fn block(&mut self, index: u32, offset: usize) -> Result<Option<Bytes>, Unread> {
        if let Some((at, block)) = &self.current
            && *at == index
        {
            return Ok(block.clone());
        }
        let (purpose, ahead) = {
            let mut place = self.place.0.borrow_mut();
            (place.purpose(), place.step(index, offset))
        };
        let block = self.blocks.read(index, purpose, ahead)?;
        self.current = Some((index, block.clone()));
        Ok(block)
    }
}

impl Shared {
    /// Puts a reader to another place. Returns where it was.
    pub(super) fn replace(&self, place: Place) -> Place {
        self.0.replace(place)
    }

    /// Says how many bytes of a file's content are still to come.
    pub(super) fn rest(&self, rest: u64) {
        self.0.borrow_mut().rest = rest;
    }
}

impl Place {
    fn purpose(&self) -> Purpose {
        if self.rest == 0 {
            Purpose::Leading
        } else {
            Purpose::Content
        }
    }

    /// How many blocks after the present one are worth asking for. What leads to files: as many as
    /// followed each other. A file: the rest of a run as usual, and after that as many as it is
    /// longer; in its first run soon all that is left of it. What is asked for in vain is paid for all
    /// the same.
    fn ahead(&self, offset: usize) -> u32 {
        if self.purpose() == Purpose::Leading {
            return self.run.min(AHEAD);
        }
        let ahead = match self.usual {
            None => FIRST.saturating_mul(self.run + 1),
            Some(usual) => self.run.abs_diff(usual),
        };
        let last = (self.rest - 1).saturating_add(offset as u64) / BLOCK as u64;
        ahead.min(AHEAD).min(last.try_into().unwrap_or(u32::MAX))
    }

    /// Goes to block `index`, to read from `offset` on. Returns what to ask for at the same time.
    fn step(&mut self, index: u32, offset: usize) -> Range<u32> {
        if let Some(at) = self.recent.iter().position(|it| *it == Some(index)) {
            self.recent[..=at].rotate_right(1);
            return index..index;
        }
        let follows = index > 0 && self.recent.contains(&Some(index - 1));
        self.recent.rotate_right(1);
        self.recent[0] = Some(index);
        if follows {
            self.run += 1;
        } else {
            // Not the first block of all.
            if self.recent[1].is_some() {
                self.usual = Some(self.run.midpoint(self.usual.unwrap_or(self.run)));
            }
            self.run = 0;
            self.next = 0;
        }
        let from = self.next.max(index.saturating_add(1));
        let end = index.saturating_add(1).saturating_add(self.ahead(offset));
        self.next = end.max(from);
        from..self.next
    }
}

impl Disk for Reader {
    fn read(&mut self, start: u64, mut into: &mut [u8]) -> Result<(), String> {
        let mut at = start;
        while !into.is_empty() {
            let index = u32::try_from(at / BLOCK as u64).ok();
            let index = index.filter(|index| *index < BLOCKS);
            let index = index.ok_or("no disk is that long")?;
            // Less than a block.
            let offset = usize::try_from(at % BLOCK as u64).unwrap_or_default();
            let length = into.len().min(BLOCK - offset);
            let (part, rest) = into.split_at_mut(length);
            match self.block(index, offset).map_err(|it| it.to_string())? {
                Some(block) => {
                    let found = block.get(offset..offset + length);
                    part.copy_from_slice(found.ok_or("a block is cut short")?);
                }
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

    /// Counts the requests beside the blocks of these extents, which are those of one file or of
    /// metadata: how many, and how many in vain.
    fn asked(extents: &[Range<u32>], is_file: bool) -> (usize, usize) {
        let (mut recent, mut ahead) = (Vec::new(), Vec::new());
        let mut place = Place::default();
        let all: Vec<u32> = extents.iter().cloned().flatten().collect();
        for (at, index) in all.iter().enumerate() {
            recent.push(*index);
            place.rest = if is_file {
                ((all.len() - at) * BLOCK) as u64
            } else {
                0
            };
            ahead.extend(place.step(*index, 0));
        }
        let in_vain = ahead.iter().filter(|index| !recent.contains(index)).count();
        ahead.sort_unstable();
        let length = ahead.len();
        ahead.dedup();
        assert_eq!(ahead.len(), length, "something is asked for twice");
        (length, in_vain)
    }

    /// Makes `count` extents of one length.
    fn extents(count: u32, length: u32) -> Vec<Range<u32>> {
        let starts = (0..count).map(|at| at * 9000);
        starts.map(|start| start..start + length).collect()
    }

    #[test]
    fn a_file_in_one_piece_is_asked_for_soon_and_nothing_beside_it() {
        for blocks in [1, 2, 40, 2048] {
            let (ahead, in_vain) = asked(&extents(1, blocks), true);
            assert_eq!((ahead, in_vain), (blocks as usize - 1, 0), "{blocks}");
        }
        let mut place = Place {
            rest: u64::MAX,
            ..Place::default()
        };
        let asked = [7, 8, 9].map(|index| place.step(index, 0));
        assert_eq!(asked, [8..24, 24..41, 41..58]);
        let mut place = Place {
            rest: 1,
            ..Place::default()
        };
        assert!(place.step(7, BLOCK - 1).is_empty());
        let mut place = Place {
            rest: 2,
            ..Place::default()
        };
        assert_eq!(place.step(7, BLOCK - 1), 8..9);
    }

    #[test]
    fn the_extents_of_a_file_are_found_to_be_as_long_as_they_are() {
        let (ahead, in_vain) = asked(&extents(8, 256), true);
        assert!(ahead >= 2040 && in_vain < 100, "{ahead}, {in_vain}");
        let (ahead, in_vain) = asked(&extents(64, 32), true);
        assert!(ahead > 1900 && in_vain < 100, "{ahead}, {in_vain}");
        let (_, in_vain) = asked(&extents(50, 4), true);
        assert!(in_vain < 100, "{in_vain}");
        assert_eq!(asked(&extents(200, 1), true), (16, 16));
    }

    #[test]
    fn blocks_that_lead_to_files_are_read_ahead_as_far_as_they_followed_each_other() {
        assert_eq!(asked(&extents(200, 1), false), (0, 0));
        assert_eq!(asked(&extents(10, 2), false), (10, 10));
        let (ahead, in_vain) = asked(&extents(2, 500), false);
        assert!(
            ahead > 900 && in_vain <= 2 * AHEAD as usize,
            "{ahead}, {in_vain}"
        );
    }

    #[test]
    fn a_block_between_two_blocks_of_a_file_does_not_end_their_run() {
        let mut place = Place::default();
        let mut ahead = 0;
        for index in 100..164 {
            ahead += place.step(index, 0).len();
            ahead += place.step(5, 0).len();
        }
        assert!(ahead >= 63, "{ahead}");
    }
}
