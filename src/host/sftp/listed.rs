//! The bound of what a server lists: it is kept until it is copied, and a hostile one has no end.

use std::sync::atomic::{AtomicU64, Ordering};

use super::packet::Entry;

/// More was listed than there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// The most entries that one command lists: some 300 bytes are kept for each.
const ENTRIES: u64 = 5_000_000;

/// The most bytes of their names and targets.
const BYTES: u64 = 512 << 20;

/// The most answers that say there are more: those of a folder with so many entries, and short names.
const ANSWERS: u64 = 100_000;

/// How deep a folder may be: what is done below it is done by recursion, and its paths are kept.
pub(super) const DEPTH: usize = 256;

/// The count of what one command has listed, or one round of it.
#[derive(Debug)]
pub(crate) struct Listed {
    /// How many entries there may be.
    most: u64,
    entries: AtomicU64,
    bytes: AtomicU64,
    answers: AtomicU64,
}

impl Default for Listed {
    fn default() -> Self {
        Self::bounded(ENTRIES)
    }
}

impl Listed {
    /// With room for so many entries.
    pub(crate) fn bounded(most: u64) -> Self {
        Self {
            most,
            entries: AtomicU64::default(),
            bytes: AtomicU64::default(),
            answers: AtomicU64::default(),
        }
    }

    /// Sets the counts back to zero: the whole tree is listed again.
    pub(crate) fn begin(&self) {
        for count in [&self.entries, &self.bytes, &self.answers] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Takes an entry, if there is room for it.
    pub(super) fn add(&self, entry: &Entry) -> Result<(), Full> {
        let bytes = (entry.name.len() + entry.target.len()) as u64;
        demand(count(&self.entries, 1) <= self.most && count(&self.bytes, bytes) <= BYTES)
    }

    /// Takes an answer that is not the last one of its folder.
    pub(super) fn answer(&self) -> Result<(), Full> {
        demand(count(&self.answers, 1) <= ANSWERS)
    }
}

fn count(total: &AtomicU64, more: u64) -> u64 {
    total.fetch_add(more, Ordering::Relaxed) + more
}

fn demand(has_room: bool) -> Result<(), Full> {
    if has_room { Ok(()) } else { Err(Full) }
}

/// Whether a folder is too deep.
pub(super) fn is_too_deep(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').count() > DEPTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::sftp::Attributes;

    #[test]
    fn a_listing_is_bounded_by_number_by_bytes_and_by_depth() {
        let entry = |target: usize| Entry {
            name: b"a".to_vec(),
            attributes: Attributes {
                mode: 0o120_777,
                size: 1,
                changed: 0,
            },
            target: vec![b'x'; target],
        };
        let until_full = |listed: &Listed, entry: &Entry| {
            (0..1_000_000)
                .take_while(|_| listed.add(entry) == Ok(()))
                .count()
        };
        let few = Listed::bounded(10);
        assert_eq!(until_full(&few, &entry(0)), 10);
        // From the beginning on.
        few.begin();
        assert_eq!(until_full(&few, &entry(0)), 10);
        let long = until_full(&Listed::default(), &entry(4095));
        assert_eq!(long, 512 << 20 >> 12);
        // A server that never ends a listing without names.
        let listed = Listed::default();
        let answers = (0..1_000_000).take_while(|_| listed.answer() == Ok(()));
        assert_eq!(answers.count() as u64, ANSWERS);
        assert!(!is_too_deep(&b"a/".repeat(DEPTH - 1)));
        assert!(is_too_deep(&b"a/".repeat(DEPTH)));
    }
}
