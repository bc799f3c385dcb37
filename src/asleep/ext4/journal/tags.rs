//! The tags in a descriptor: which blocks follow it, and where they belong.

use super::super::bytes::{be16, be32, joined, part};
use super::super::error::Error;
use super::head::{Checks, Features};

/// The bytes of the head of each block of the journal itself.
pub(super) const HEAD: usize = 12;

/// `t_flags`.
const ESCAPED: u16 = 1;
const SAME_UUID: u16 = 2;
const LAST: u16 = 8;

/// A block that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// Where it belongs.
    pub(super) block: u64,
    pub(super) is_escaped: bool,
    /// The checksum, if it has one.
    pub(super) checksum: Option<u32>,
}

/// The tags of a descriptor without the checksum at its end.
pub(super) fn parse(features: Features, block: &[u8]) -> Result<Vec<Tag>, Error> {
    let size = match (features.checks, features.is_wide) {
        (Checks::Full, _) => 16,
        (Checks::Short, true) => 14,
        (Checks::Short, false) => 10,
        (Checks::None, true) => 12,
        (Checks::None, false) => 8,
    };
    let mut tags = Vec::new();
    let mut at = HEAD;
    while at + size <= block.len() {
        let bytes = part(block, at, size)?;
        // In both forms the flags are in these two bytes.
        let flags = be16(bytes, 6)?;
        let high = if features.is_wide { be32(bytes, 8)? } else { 0 };
        tags.push(Tag {
            block: joined(high, be32(bytes, 0)?),
            is_escaped: flags & ESCAPED != 0,
            checksum: match features.checks {
                Checks::None => None,
                Checks::Short => Some(be16(bytes, 4)?.into()),
                Checks::Full => Some(be32(bytes, 12)?),
            },
        });
        at += size;
        if flags & SAME_UUID == 0 {
            at += 16;
        }
        if flags & LAST != 0 {
            break;
        }
    }
    Ok(tags)
}
