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
const PAGE: u16 = 100;

/// Some of the blocks of a snapshot that were ever written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenBlocks {
    /// Their indices, in order, each with the token that reads it.
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
        let mut next = None;
        // Pages may be empty although more follow.
        loop {
            let answer = self
                .ebs
                .list_snapshot_blocks()
                .snapshot_id(id.as_str())
                .starting_block_index(asked(CALL, start)?)
                .max_results(i32::from(most))
                .set_next_token(next)
                .send()
                .await
                .map_err(|error| Error::of(CALL, &error))?;
            next = answer.next_token;
            let tokens: Option<Vec<_>> = answer
                .blocks
                .unwrap_or_default()
                .into_iter()
                .map(|block| Some((u32::try_from(block.block_index?).ok()?, block.block_token?)))
                .collect();
            let mut tokens =
                tokens.ok_or_else(|| Error::unreadable(CALL, "a block without its token"))?;
            tokens.sort_unstable();
            match (&next, tokens.last()) {
                (None, _) => return Ok(WrittenBlocks { tokens, end: None }),
                (Some(_), Some((last, _))) => {
                    let end = Some(last.saturating_add(1));
                    return Ok(WrittenBlocks { tokens, end });
                }
                (Some(_), None) => {}
            }
        }
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
            .block_index(asked(CALL, index)?)
            .block_token(token)
            .send()
            .await
            .map_err(|error| Error::of(CALL, &error))?;
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

/// A block's index as the API has it.
fn asked(call: &'static str, index: u32) -> Result<i32, Error> {
    i32::try_from(index).map_err(|doubt| Error::unreadable(call, doubt))
}
