//! A snapshot's content, block by block (EBS direct APIs reference). Only reads.
//!
//! These calls are another service than EC2, with permissions of its own (`ebs:ListSnapshotBlocks`,
//! `ebs:GetSnapshotBlock`, `ebs:ListChangedBlocks`): they may be [`super::Kind::Denied`] for a caller
//! that may do all else.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{Ec2, Error};
use crate::ids::SnapshotId;

/// The size of a block, in bytes.
pub const BLOCK: usize = 512 << 10;

/// The smallest page of a list.
pub(super) const PAGE: u16 = 100;

/// Some of the blocks of a snapshot that were ever written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenBlocks {
    /// The blocks' indices, in order, each with the token that reads it.
    pub tokens: Vec<(u32, String)>,
    /// The first block that this says nothing about; none if there is none.
    pub end: Option<u32>,
}

impl WrittenBlocks {
    /// The token that reads block `index`; none if that was never written.
    #[must_use]
    pub fn token(&self, index: u32) -> Option<&str> {
        let found = self
            .tokens
            .binary_search_by_key(&index, |(index, _)| *index);
        found.ok().map(|at| self.tokens[at].1.as_str())
    }
}

/// A block that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedBlock {
    /// The block's index.
    pub index: u32,
    /// The token that reads it in the second snapshot; none if that has no such block.
    pub token: Option<String>,
}

/// Some of the blocks that differ between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedBlocks {
    /// The blocks, by index.
    pub blocks: Vec<ChangedBlock>,
    /// The first block that this says nothing about; none if there is none.
    pub end: Option<u32>,
}

/// A page of a list of blocks, in order.
struct Page<T> {
    blocks: Vec<(u32, T)>,
    end: Option<u32>,
}

impl Ec2 {
    /// Block `index` of a completed snapshot, [`BLOCK`] bytes, compared with its checksum; `None`
    /// if it was never written. Two calls: the list of blocks has the token that reads one.
    pub async fn snapshot_block(
        &self,
        id: &SnapshotId,
        index: u32,
    ) -> Result<Option<Bytes>, Error> {
        match self.block_token(id, index).await? {
            Some(token) => self.read_block(id, index, &token).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn block_token(
        &self,
        id: &SnapshotId,
        index: u32,
    ) -> Result<Option<String>, Error> {
        let blocks = self.written_blocks(id, index, PAGE).await?;
        Ok(blocks.token(index).map(str::to_owned))
    }

    /// The blocks of a completed snapshot from `start` on that were written, about `most` of them
    /// (100 to 10 000).
    pub async fn written_blocks(
        &self,
        id: &SnapshotId,
        start: u32,
        most: u16,
    ) -> Result<WrittenBlocks, Error> {
        const CALL: &str = "ListSnapshotBlocks";
        let request = self
            .ebs
            .list_snapshot_blocks()
            .snapshot_id(id.as_str())
            .starting_block_index(block_index(CALL, start)?)
            .max_results(i32::from(most));
        let page = first_page(CALL, |next| {
            let sent = request.clone().set_next_token(next).send();
            async {
                let answer = sent.await.map_err(|error| Error::from_sdk(CALL, &error))?;
                let blocks = answer.blocks.unwrap_or_default().into_iter();
                let blocks = blocks.map(|block| Some((block.block_index?, block.block_token?)));
                Ok((blocks.collect(), answer.next_token))
            }
        });
        let Page { blocks, end } = page.await?;
        Ok(WrittenBlocks {
            tokens: blocks,
            end,
        })
    }

    /// The blocks from `start` on that differ between two completed snapshots of one volume, or of
    /// volumes of which one was made of the other's, about `most` of them (100 to 10 000). Blocks
    /// that were written count, also with what they had. [`super::Kind::Invalid`] if the two have
    /// nothing to do with each other (EBS direct APIs reference, `ListChangedBlocks`).
    pub async fn changed_blocks(
        &self,
        first: &SnapshotId,
        second: &SnapshotId,
        start: u32,
        most: u16,
    ) -> Result<ChangedBlocks, Error> {
        const CALL: &str = "ListChangedBlocks";
        let request = self
            .ebs
            .list_changed_blocks()
            .first_snapshot_id(first.as_str())
            .second_snapshot_id(second.as_str())
            .starting_block_index(block_index(CALL, start)?)
            .max_results(i32::from(most));
        let page = first_page(CALL, |next| {
            let sent = request.clone().set_next_token(next).send();
            async {
                let answer = sent.await.map_err(|error| Error::from_sdk(CALL, &error))?;
                let blocks = answer.changed_blocks.unwrap_or_default().into_iter();
                let blocks =
                    blocks.map(|block| Some((block.block_index?, block.second_block_token)));
                Ok((blocks.collect(), answer.next_token))
            }
        });
        let Page { blocks, end } = page.await?;
        let blocks = blocks.into_iter();
        let blocks = blocks.map(|(index, token)| ChangedBlock { index, token });
        Ok(ChangedBlocks {
            blocks: blocks.collect(),
            end,
        })
    }

    /// Reads block `index` of a completed snapshot by its token: [`BLOCK`] bytes, compared with
    /// their checksum.
    pub async fn read_block(
        &self,
        id: &SnapshotId,
        index: u32,
        token: &str,
    ) -> Result<Bytes, Error> {
        const CALL: &str = "GetSnapshotBlock";
        let answer = self
            .ebs
            .get_snapshot_block()
            .snapshot_id(id.as_str())
            .block_index(block_index(CALL, index)?)
            .block_token(token)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        let expected = answer.checksum.unwrap_or_default();
        let data = answer
            .block_data
            .collect()
            .await
            .map_err(|error| Error::unreadable(CALL, error))?
            .into_bytes();
        let checksum = aws_smithy_types::base64::encode(Sha256::digest(&data));
        if data.len() != BLOCK || checksum != expected {
            return Err(Error::unreadable(
                CALL,
                format_args!("{} bytes with another checksum", data.len()),
            ));
        }
        Ok(data)
    }
}

/// A page's blocks, none if one of them lacks something; and the token of the next page.
type Listed<T> = (Option<Vec<(i32, T)>>, Option<String>);

/// The first page of the list of `call` that has a block: pages may be empty although more follow.
async fn first_page<T: Ord, F: Future<Output = Result<Listed<T>, Error>>>(
    call: &'static str,
    ask: impl Fn(Option<String>) -> F,
) -> Result<Page<T>, Error> {
    let mut next = None;
    loop {
        let (blocks, following) = ask(next).await?;
        next = following;
        let unreadable = || Error::unreadable(call, "a block without its index or token");
        let mut blocks: Vec<(u32, T)> = blocks
            .ok_or_else(unreadable)?
            .into_iter()
            .map(|(index, of)| Some((u32::try_from(index).ok()?, of)))
            .collect::<Option<_>>()
            .ok_or_else(unreadable)?;
        blocks.sort_unstable();
        match (&next, blocks.last()) {
            (None, _) => return Ok(Page { blocks, end: None }),
            (Some(_), Some((last, _))) => {
                let end = Some(last.saturating_add(1));
                return Ok(Page { blocks, end });
            }
            (Some(_), None) => {}
        }
    }
}

/// A block's index as the API has it.
fn block_index(call: &'static str, index: u32) -> Result<i32, Error> {
    i32::try_from(index).map_err(|doubt| Error::unreadable(call, doubt))
}
