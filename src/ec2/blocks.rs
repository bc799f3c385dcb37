//! A snapshot's content, block by block (EBS direct APIs reference). Only reads.
//!
//! These calls are another service than EC2, with permissions of its own (`ebs:ListSnapshotBlocks`,
//! `ebs:GetSnapshotBlock`): they may be [`super::Kind::Denied`] for a caller that may do all else.

use sha2::{Digest as _, Sha256};

use super::{Ec2, Error};
use crate::ids::SnapshotId;

/// The size of a block, in bytes.
pub const BLOCK: usize = 512 << 10;

/// The smallest page of a list.
const PAGE: i32 = 100;

impl Ec2 {
    /// Block `index` of a completed snapshot, [`BLOCK`] bytes, compared with its checksum; `None`
    /// if it was never written. Two calls: the list of blocks has the token that reads one.
    pub async fn snapshot_block(
        &self,
        id: &SnapshotId,
        index: u32,
    ) -> Result<Option<Vec<u8>>, Error> {
        const CALL: &str = "GetSnapshotBlock";
        let index = i32::try_from(index).map_err(|doubt| Error::unreadable(CALL, doubt))?;
        let Some(token) = self.block_token(id, index).await? else {
            return Ok(None);
        };
        let answer = self
            .ebs
            .get_snapshot_block()
            .snapshot_id(id.as_str())
            .block_index(index)
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
            .to_vec();
        let checksum = aws_smithy_types::base64::encode(Sha256::digest(&data));
        if data.len() != BLOCK || checksum != expected {
            return Err(Error::unreadable(
                CALL,
                format_args!("{} bytes with another checksum", data.len()),
            ));
        }
        Ok(Some(data))
    }

    /// Pages may be empty although more follow.
    pub(super) async fn block_token(
        &self,
        id: &SnapshotId,
        index: i32,
    ) -> Result<Option<String>, Error> {
        const CALL: &str = "ListSnapshotBlocks";
        let mut next = None;
        loop {
            let answer = self
                .ebs
                .list_snapshot_blocks()
                .snapshot_id(id.as_str())
                .starting_block_index(index)
                .max_results(PAGE)
                .set_next_token(next)
                .send()
                .await
                .map_err(|error| Error::of(CALL, &error))?;
            if let Some(block) = answer.blocks().first() {
                let found = block.block_index() == Some(index);
                return Ok(block.block_token().filter(|_| found).map(str::to_owned));
            }
            next = answer.next_token;
            if next.is_none() {
                return Ok(None);
            }
        }
    }
}
