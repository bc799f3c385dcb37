//! The log of a journal, read once from its beginning to where nothing more was committed.

use std::collections::HashMap;

use super::super::bytes::{be32, be64, byte, joined, length};
use super::super::checksum::{crc32_be, crc32c, crc32c_without};
use super::super::error::Error;
use super::super::volume::{Expected, JOURNAL_MAGIC, Replayed};
use super::head::{Checks, Journal, wrong};
use super::tags::{self, HEAD};

/// Kinds of blocks.
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const REVOKE: u32 = 5;

/// How many blocks may wait in a journal, and be revoked in it: 4 GiB of the usual ones.
const MOST: usize = 1 << 20;

/// The bytes of a checksum at the end of a block.
const TAIL: usize = 4;

/// CRC-32, as `h_chksum_type`, and its length.
const CRC32: u8 = 1;
const CRC32_LENGTH: u8 = 4;

/// The newest place of each block.
type Blocks = HashMap<u64, Replayed>;

/// A log that is being read.
pub(super) struct Log<'a> {
    journal: &'a Journal<'a>,
    /// The next block, and how many are left until all were read.
    next: u32,
    left: u32,
    /// Blocks that were committed, in order, with their transactions.
    written: Vec<(u32, u64, Replayed)>,
    /// The last transaction that revoked a block: what that and those before it wrote there is
    /// nothing any more.
    revoked: HashMap<u64, u32>,
    /// The present transaction.
    open: Open,
    /// When the last one was committed, in seconds since 1970.
    committed: u64,
}

/// The step that a block of the log was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The transaction goes on.
    Open,
    /// The transaction was committed.
    Committed,
}

/// A transaction.
struct Open {
    written: Vec<(u64, Replayed)>,
    revoked: Vec<u64>,
    /// Whether a checksum of it is wrong: it may be what is left of an older log.
    is_wrong: bool,
    /// The checksum of all that it wrote.
    sum: u32,
}

impl Open {
    fn new() -> Self {
        Self {
            written: Vec::new(),
            revoked: Vec::new(),
            is_wrong: false,
            sum: !0,
        }
    }
}

impl<'a> Log<'a> {
    /// Reads all that the journal has, by the blocks of the disk.
    pub(super) fn read(journal: &'a Journal<'a>) -> Result<Blocks, Error> {
        let mut log = Self {
            journal,
            next: journal.start,
            left: journal.last - journal.first,
            written: Vec::new(),
            revoked: HashMap::new(),
            open: Open::new(),
            committed: 0,
        };
        let mut sequence = journal.sequence;
        while let Some(step) = log.block(sequence)? {
            if step == Step::Committed {
                log.commit(sequence);
                sequence = sequence.wrapping_add(1);
            }
        }
        journal.check_fast(sequence)?;
        Ok(log.blocks())
    }

    /// Reads the next block of the log and what belongs to it; none where the log ends.
    fn block(&mut self, sequence: u32) -> Result<Option<Step>, Error> {
        let Some(place) = self.advance()? else {
            return Ok(None);
        };
        let block = self.journal.volume.read(place)?;
        if !block.starts_with(&JOURNAL_MAGIC) || be32(&block, 8)? != sequence {
            return Ok(None);
        }
        Ok(match be32(&block, 4)? {
            DESCRIPTOR => self.descriptor(&block, sequence)?.then_some(Step::Open),
            REVOKE => {
                self.revoke(&block)?;
                Some(Step::Open)
            }
            COMMIT => self.is_committed(&block)?.then_some(Step::Committed),
            _ => None,
        })
    }

    /// Goes to the next block. Returns where it was on the disk; none if all were read.
    fn advance(&mut self) -> Result<Option<u64>, Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        let place = self.journal.place(self.next)?;
        self.left = left;
        self.next += 1;
        if self.next >= self.journal.last {
            self.next = self.journal.first;
        }
        Ok(Some(place))
    }

    /// A block of the journal itself without the checksum at its end, which is compared.
    fn checked<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], Error> {
        let features = self.journal.features;
        if features.checks == Checks::None {
            return Ok(block);
        }
        let at = block.len().saturating_sub(TAIL);
        if crc32c_without(features.seed, block, at, TAIL) != be32(block, at)? {
            self.open.is_wrong = true;
        }
        Ok(block.get(..at).unwrap_or_default())
    }

    /// Reads a descriptor; false if the log has less than what should follow it.
    fn descriptor(&mut self, block: &[u8], sequence: u32) -> Result<bool, Error> {
        let features = self.journal.features;
        let tags = tags::parse(features, self.checked(block)?)?;
        if self.written.len() + self.open.written.len() + tags.len() > MOST {
            return Err(too_long());
        }
        if features.has_sums {
            self.open.sum = crc32_be(self.open.sum, block);
        }
        let start = crc32c(features.seed, &sequence.to_be_bytes());
        for tag in tags {
            let Some(place) = self.advance()? else {
                return Ok(false);
            };
            if features.has_sums {
                let data = self.journal.volume.read(place)?;
                self.open.sum = crc32_be(self.open.sum, &data);
            }
            let expected = tag.checksum.map(|checksum| Expected {
                start,
                checksum,
                is_short: features.checks == Checks::Short,
            });
            let replayed = Replayed {
                block: place,
                is_escaped: tag.is_escaped,
                expected,
            };
            self.open.written.push((tag.block, replayed));
        }
        Ok(true)
    }

    fn revoke(&mut self, block: &[u8]) -> Result<(), Error> {
        let is_wide = self.journal.features.is_wide;
        let bytes = self.checked(block)?;
        let end = length(be32(bytes, HEAD)?.into())?;
        let list = bytes.get(HEAD + 4..end);
        let list = list.ok_or_else(|| wrong("has a wrong list of revoked blocks"))?;
        let size = if is_wide { 8 } else { 4 };
        if self.revoked.len() + self.open.revoked.len() + list.len() / size > MOST {
            return Err(too_long());
        }
        for bytes in list.chunks_exact(size) {
            self.open.revoked.push(if is_wide {
                joined(be32(bytes, 0)?, be32(bytes, 4)?)
            } else {
                be32(bytes, 0)?.into()
            });
        }
        Ok(())
    }

    /// Whether the transaction ends here; false if this is what is left of an older log, or was not
    /// written in full.
    fn is_committed(&mut self, block: &[u8]) -> Result<bool, Error> {
        let features = self.journal.features;
        let committed = be64(block, 48)?;
        let recorded = be32(block, 16)?;
        let sum = (byte(block, 12)?, byte(block, 13)?, recorded);
        let is_right = match features.checks {
            Checks::None if features.has_sums => {
                sum == (0, 0, 0) || sum == (CRC32, CRC32_LENGTH, self.open.sum)
            }
            Checks::None => true,
            Checks::Short | Checks::Full => crc32c_without(features.seed, block, 16, 4) == recorded,
        };
        if self.open.is_wrong || !is_right {
            let may_be_torn = features.is_async && !self.open.is_wrong;
            if committed < self.committed || may_be_torn {
                return Ok(false);
            }
            return Err(wrong("has a wrong checksum"));
        }
        self.committed = committed;
        Ok(true)
    }

    fn commit(&mut self, sequence: u32) {
        let open = std::mem::replace(&mut self.open, Open::new());
        for (block, replayed) in open.written {
            self.written.push((sequence, block, replayed));
        }
        for block in open.revoked {
            self.revoked.insert(block, sequence);
        }
    }

    /// The newest place of each block, without the revoked ones.
    fn blocks(self) -> Blocks {
        let mut blocks = Blocks::new();
        for (sequence, block, replayed) in self.written {
            let is_revoked = match self.revoked.get(&block) {
                // Numbers of transactions go around.
                Some(last) => sequence.wrapping_sub(*last).cast_signed() <= 0,
                None => false,
            };
            if !is_revoked {
                blocks.insert(block, replayed);
            }
        }
        blocks
    }
}

fn too_long() -> Error {
    Error::TooLarge("its journal has more than is replayed in memory".to_owned())
}
