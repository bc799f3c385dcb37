//! The blocks that are kept: the last ones, and beside them those that lead to files.

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter};

/// How many that lead to files are kept while a large one goes by: each serves many files, and is
/// needed again and again.
const LEADING: u32 = 64;

/// The purpose for which a block is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A file's content.
    Content,
    /// Metadata of the file system, which leads to files.
    Leading,
}

/// A block; none if it was never written.
type Block = Option<Bytes>;

pub(super) struct Kept {
    last: Cache<u32, Block>,
    leading: Cache<u32, Block>,
}

impl Kept {
    /// Keeps so many of the last blocks, of which most are needed once, and soon.
    pub(super) fn new(last: u32) -> Self {
        Self {
            // One at the least stays for having been needed more than once, or for being the first.
            last: cache(last + 1, 0.0),
            leading: cache(LEADING, 0.5),
        }
    }

    pub(super) fn has(&self, index: u32) -> bool {
        self.last.peek(&index).is_some() || self.leading.peek(&index).is_some()
    }

    /// Block `index`, which `read` brings unless it is kept or on its way.
    pub(super) async fn get_or_read<E>(
        &self,
        index: u32,
        purpose: Purpose,
        read: impl Future<Output = Result<Block, E>>,
    ) -> Result<Block, E> {
        match purpose {
            Purpose::Leading => {
                let read = self.last.get_or_insert_async(&index, read);
                self.leading.get_or_insert_async(&index, read).await
            }
            Purpose::Content => match self.leading.get(&index) {
                Some(block) => Ok(block),
                None => self.last.get_or_insert_async(&index, read).await,
            },
        }
    }
}

/// A cache of so many blocks. A share of it is for those that were needed more than once.
fn cache(capacity: u32, again: f64) -> Cache<u32, Block> {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(capacity as usize)
        .weight_capacity(u64::from(capacity))
        .hot_allocation(again)
        .shards(1)
        .build();
    match options {
        Ok(options) => Cache::with_options(
            options,
            UnitWeighter,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ),
        // Never: all that it takes is set.
        Err(_) => Cache::new(capacity as usize),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::Range;

    use super::*;

    const LAST: u32 = 400;

    /// How many of these blocks have to be read.
    async fn read(kept: &Kept, blocks: Range<u32>, purpose: Purpose) -> u32 {
        let mut all = 0;
        for index in blocks {
            let read = async {
                all += 1;
                Ok::<_, Infallible>(Some(Bytes::new()))
            };
            let Ok(block) = kept.get_or_read(index, purpose, read).await;
            assert_eq!(block, Some(Bytes::new()));
        }
        all
    }

    #[tokio::test]
    async fn blocks_that_lead_to_files_stay_while_a_large_file_is_read() {
        let kept = Kept::new(LAST);
        assert_eq!(read(&kept, 0..20, Purpose::Leading).await, 20);
        assert_eq!(read(&kept, 5000..9000, Purpose::Content).await, 4000);
        assert_eq!(read(&kept, 0..20, Purpose::Leading).await, 0);
        assert_eq!(read(&kept, 0..20, Purpose::Content).await, 0);
        assert!(kept.has(7) && !kept.has(20));
    }

    #[tokio::test]
    async fn blocks_that_were_read_ahead_are_there_when_they_are_needed() {
        let kept = Kept::new(LAST);
        read(&kept, 5000..9000, Purpose::Content).await;
        let ahead = 20_000..20_000 + LAST;
        read(&kept, ahead.clone(), Purpose::Content).await;
        assert_eq!(read(&kept, ahead, Purpose::Content).await, 0);
    }

    #[tokio::test]
    async fn blocks_that_lead_to_files_give_way_to_newer_ones_of_that_kind() {
        let kept = Kept::new(LAST);
        for start in (0..1000).step_by(20) {
            read(&kept, start..start + 20, Purpose::Leading).await;
            read(&kept, 5000..6000, Purpose::Content).await;
            let again = read(&kept, start..start + 20, Purpose::Leading).await;
            assert_eq!(again, 0, "{start}");
        }
    }
}
