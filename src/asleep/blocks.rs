//! The blocks of a snapshot: each is read once, many at a time, and kept for a while.

use std::collections::HashMap;
use std::iter;
use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use quick_cache::sync::Cache;
use tokio::sync::{OnceCell, Semaphore, mpsc, oneshot};

use super::kept::{Kept, Purpose};
use crate::ec2::{self, BLOCK, Ec2, Kind, WrittenBlocks};
use crate::ids::SnapshotId;

/// How many blocks are asked for at once: at 100 ms a call, 480 MiB/s, and nearly the thousand
/// `GetSnapshotBlock` a second of one snapshot that an account has (EBS endpoints and quotas).
pub(super) const UNDER_WAY: u32 = 96;

/// How many of the last blocks are kept: what four threads read ahead.
const KEPT: u32 = 4 * UNDER_WAY;

/// How many blocks a list of tokens is for: 500 MiB of a drive, and 100 KB of an answer.
const PAGE: u16 = 1000;

/// How many of these lists are kept.
const PAGES: usize = 512;

/// How many blocks a list is for at most: of those that differ between two snapshots, and where much of a
/// file follows. An account has 50 lists a second.
const MOST: u16 = 10_000;

/// How many blocks have to be read ahead for that: a large file is begun.
const MUCH: usize = UNDER_WAY as usize / 2;

/// US dollars for a call (EBS pricing, *EBS direct APIs*, us-east-1): `GetSnapshotBlock`, and a list
/// of blocks.
const DOLLARS: [f64; 2] = [0.003 / 1000.0, 0.0006 / 1000.0];

/// The blocks of one snapshot. Cheap to clone; the calls are made by a task, so that whoever waits
/// for them need not be one.
#[derive(Clone)]
pub(super) struct Blocks {
    asked: mpsc::UnboundedSender<Asked>,
    source: Arc<Source>,
}

/// A request for a block, and for some after it that are needed soon.
struct Asked {
    index: u32,
    purpose: Purpose,
    ahead: Range<u32>,
    answer: oneshot::Sender<Result<Option<Bytes>, ec2::Error>>,
}

/// Why a block cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error(transparent)]
    Call(#[from] ec2::Error),
    /// xdrive ends.
    #[error("nothing is read any more")]
    Over,
}

#[derive(Default)]
struct Calls {
    blocks: AtomicU64,
    lists: AtomicU64,
    /// The first that failed for good.
    failed: OnceLock<ec2::Error>,
}

/// The calls that reading a snapshot took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Blocks, of 512 KiB each.
    pub(crate) blocks: u64,
    /// Lists of blocks.
    pub(crate) lists: u64,
}

impl Reading {
    /// The calls' cost, in US dollars.
    pub(crate) fn dollars(self) -> f64 {
        [self.blocks, self.lists]
            .iter()
            .zip(DOLLARS)
            .map(|(calls, price)| f64::from(u32::try_from(*calls).unwrap_or(u32::MAX)) * price)
            .sum()
    }

    /// The bytes that came.
    pub(crate) fn bytes(self) -> u64 {
        self.blocks * BLOCK as u64
    }
}

impl AddAssign for Reading {
    fn add_assign(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.lists += more.lists;
    }
}

/// The state that all calls share.
struct Source {
    ec2: Ec2,
    snapshot: SnapshotId,
    permits: Semaphore,
    kept: Kept,
    pages: Cache<u32, Arc<WrittenBlocks>>,
    calls: Calls,
    /// The snapshot that has most of the same blocks, which are read there.
    since: Option<Since>,
}

/// Another snapshot (the origin), and the blocks that differ from it.
struct Since {
    source: Arc<Source>,
    /// The blocks that differ, with the tokens that read them; none if the two are not related.
    differing: OnceCell<Option<HashMap<u32, Option<String>>>>,
}

impl Blocks {
    pub(super) fn new(ec2: Ec2, snapshot: SnapshotId) -> Self {
        Self::with_origin(ec2, snapshot, None)
    }

    /// The blocks of another snapshot. Shares this one's cache for blocks that did not change.
    pub(super) fn for_snapshot(&self, snapshot: SnapshotId) -> Self {
        let since = Since {
            source: Arc::clone(&self.source),
            differing: OnceCell::new(),
        };
        Self::with_origin(self.source.ec2.clone(), snapshot, Some(since))
    }

    fn with_origin(ec2: Ec2, snapshot: SnapshotId, since: Option<Since>) -> Self {
        let (asked, requests) = mpsc::unbounded_channel();
        let source = Arc::new(Source {
            ec2,
            snapshot,
            permits: Semaphore::new(UNDER_WAY as usize),
            kept: Kept::new(KEPT),
            pages: Cache::new(PAGES),
            calls: Calls::default(),
            since,
        });
        tokio::spawn(carry(Arc::clone(&source), requests));
        Self { asked, source }
    }

    /// Block `index`; none if it was never written. Blocks, and not on the runtime's own thread.
    /// Those of `ahead` are asked for at the same time, and kept until they are needed.
    pub(super) fn read(
        &self,
        index: u32,
        purpose: Purpose,
        ahead: Range<u32>,
    ) -> Result<Option<Bytes>, Unread> {
        let (answer, block) = oneshot::channel();
        let asked = Asked {
            index,
            purpose,
            ahead,
            answer,
        };
        self.asked.send(asked).map_err(|_| Unread::Over)?;
        let block = block.blocking_recv().map_err(|_| Unread::Over)?;
        Ok(block.inspect_err(|error| {
            // Only the first counts.
            let _ = self.source.calls.failed.set(error.clone());
        })?)
    }

    /// The error that ended the reading, if one did.
    pub(super) fn failed(&self) -> Option<&ec2::Error> {
        self.source.calls.failed.get()
    }

    pub(super) fn reading(&self) -> Reading {
        Reading {
            blocks: self.source.calls.blocks.load(Relaxed),
            lists: self.source.calls.lists.load(Relaxed),
        }
    }
}

async fn carry(source: Arc<Source>, mut requests: mpsc::UnboundedReceiver<Asked>) {
    while let Some(asked) = requests.recv().await {
        let one = Arc::clone(&source);
        let most = if asked.ahead.len() >= MUCH {
            MOST
        } else {
            PAGE
        };
        tokio::spawn(async move {
            let block = one.block(asked.index, asked.purpose, most).await;
            // Fails only if nobody waits for it any more.
            let _ = asked.answer.send(block);
        });
        for index in asked.ahead {
            if !source.kept.has(index) {
                let source = Arc::clone(&source);
                // An error is found by whoever needs the block.
                tokio::spawn(async move { source.block(index, Purpose::Content, most).await });
            }
        }
    }
}

impl Source {
    /// Block `index`; if its token is not known yet, the list that has it is for so many blocks at most.
    async fn block(
        &self,
        index: u32,
        purpose: Purpose,
        most: u16,
    ) -> Result<Option<Bytes>, ec2::Error> {
        let read = self.read(index, purpose, most);
        self.kept.get_or_read(index, purpose, read).await
    }

    async fn read(
        &self,
        index: u32,
        purpose: Purpose,
        most: u16,
    ) -> Result<Option<Bytes>, ec2::Error> {
        if let Some(since) = &self.since
            && let Some(differing) = self.differing(since).await?
        {
            return match differing.get(&index) {
                None => Box::pin(since.source.block(index, purpose, most)).await,
                Some(None) => Ok(None),
                Some(Some(token)) => self.get(index, token).await.map(Some),
            };
        }
        let number = index / u32::from(PAGE);
        let page = self
            .pages
            .get_or_insert_async(&number, self.page(number, most))
            .await?;
        match page.token(index) {
            None => Ok(None),
            Some(token) => self.get(index, token).await.map(Some),
        }
    }

    async fn get(&self, index: u32, token: &str) -> Result<Bytes, ec2::Error> {
        // Never closed.
        let _permit = self.permits.acquire().await;
        self.calls.blocks.fetch_add(1, Relaxed);
        let data = self.ec2.read_block(&self.snapshot, index, token).await?;
        debug_assert_eq!(data.len(), BLOCK);
        Ok(data)
    }

    /// The blocks that differ from the other snapshot, with their tokens; none if the two are not
    /// related. They are listed once.
    async fn differing<'a>(
        &self,
        since: &'a Since,
    ) -> Result<Option<&'a HashMap<u32, Option<String>>>, ec2::Error> {
        let listing = async {
            let mut all = HashMap::new();
            let mut start = Some(0);
            while let Some(at) = start {
                let _permit = self.permits.acquire().await;
                self.calls.lists.fetch_add(1, Relaxed);
                let first = &since.source.snapshot;
                let listed = self.ec2.changed_blocks(first, &self.snapshot, at, MOST);
                let listed = match listed.await {
                    Err(error) if error.kind == Kind::Invalid => return Ok(None),
                    listed => listed?,
                };
                let blocks = listed.blocks.into_iter();
                all.extend(blocks.map(|block| (block.index, block.token)));
                start = listed.end;
            }
            Ok(Some(all))
        };
        let differing = since.differing.get_or_try_init(|| listing).await?;
        Ok(differing.as_ref())
    }

    /// The tokens of the page `number`, which has [`PAGE`] blocks.
    async fn page(&self, number: u32, most: u16) -> Result<Arc<WrittenBlocks>, ec2::Error> {
        let start = number * u32::from(PAGE);
        let next = start + u32::from(PAGE);
        let (mut tokens, mut end) = (Vec::new(), Some(start));
        while let Some(at) = end.filter(|end| *end < next) {
            let _permit = self.permits.acquire().await;
            self.calls.lists.fetch_add(1, Relaxed);
            let more = self.ec2.written_blocks(&self.snapshot, at, most).await?;
            tokens.extend(more.tokens);
            end = more.end;
        }
        let later = tokens.split_off(tokens.partition_point(|(index, _)| *index < next));
        self.keep_later(number + 1, later, end);
        Ok(Arc::new(WrittenBlocks { tokens, end }))
    }

    /// Keeps what an answer says of the whole pages after the one it was asked for, from `number` on:
    /// where little was written it says much. It says nothing from `end` on.
    fn keep_later(&self, mut number: u32, tokens: Vec<(u32, String)>, end: Option<u32>) {
        let mut rest = tokens.into_iter().peekable();
        loop {
            let next = (number + 1) * u32::from(PAGE);
            if rest.peek().is_none() || end.is_some_and(|end| end < next) {
                return;
            }
            let those = iter::from_fn(|| rest.next_if(|(index, _)| *index < next));
            let page = WrittenBlocks {
                tokens: those.collect(),
                end,
            };
            self.pages.insert(number, Arc::new(page));
            number += 1;
        }
    }
}
