//! Numbers in what was read, each inside its bounds or an error.

use super::error::Error;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Error> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found
        .copied()
        .ok_or_else(|| Error::damaged("a structure is cut short"))
}

pub(super) fn byte(bytes: &[u8], at: usize) -> Result<u8, Error> {
    array::<1>(bytes, at).map(|[byte]| byte)
}

pub(super) fn le16(bytes: &[u8], at: usize) -> Result<u16, Error> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(super) fn le32(bytes: &[u8], at: usize) -> Result<u32, Error> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Result<u16, Error> {
    array(bytes, at).map(u16::from_be_bytes)
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Result<u32, Error> {
    array(bytes, at).map(u32::from_be_bytes)
}

pub(super) fn be64(bytes: &[u8], at: usize) -> Result<u64, Error> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// The `length` bytes from `at` on; an error if the structure ends before.
pub(super) fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], Error> {
    let found = at.checked_add(length).and_then(|end| bytes.get(at..end));
    found.ok_or_else(|| Error::damaged("a structure is cut short"))
}

/// Two halves of a number.
pub(super) fn joined(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// A length in memory.
pub(super) fn length(number: u64) -> Result<usize, Error> {
    usize::try_from(number).map_err(|_| Error::damaged("a length is out of range"))
}
