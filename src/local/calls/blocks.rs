//! The EBS direct APIs: the content of a snapshot, block by block.
//!
//! Source: EBS direct APIs reference, and EBS user guide, *Use EBS direct APIs to access the
//! contents of an EBS snapshot*. A block is 512 KiB; unwritten ones are not listed; a token is good
//! for one block of one snapshot until its expiry. Only completed snapshots can be read.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::request::Request;
use super::snapshots::origin;
use super::{Answer, Reading};
use crate::plane::BLOCK;
use crate::records::Snapshot;
use crate::wire::{ApiError, Xml, blob};

/// The life of a block token.
const TOKEN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The limits of a page's requested size.
const PAGES: std::ops::RangeInclusive<u32> = 100..=10_000;

/// How many calls a second the account has (EBS endpoints and quotas): of `GetSnapshotBlock` for each
/// snapshot, and of either list.
const GETS: u32 = 1000;
const LISTS: u32 = 50;

/// Refuses a call beyond the limit, if there are limits.
fn admit(reading: &Reading<'_>, what: &str, most: u32) -> Result<(), ApiError> {
    let throttle = reading.inner.throttle.as_ref();
    throttle.map_or(Ok(()), |throttle| throttle.admit(what, most, reading.now))
}

/// `ListSnapshotBlocks`.
pub(super) fn list(reading: &Reading<'_>) -> Answer {
    admit(reading, "ListSnapshotBlocks", LISTS)?;
    let (id, snapshot) = snapshot(reading, "SnapshotId")?;
    let blocks = blocks(reading, id, snapshot)?;
    listed(reading, "Blocks", snapshot, blocks, |index, expiry| {
        vec![Xml::text("BlockToken", token(reading, id, index, expiry))]
    })
}

/// `ListChangedBlocks`. Blocks with the same content are not listed, even if they were written.
pub(super) fn list_changed(reading: &Reading<'_>) -> Answer {
    admit(reading, "ListChangedBlocks", LISTS)?;
    let (second, snapshot_of_it) = snapshot(reading, "SecondSnapshotId")?;
    // Without a first one all are listed.
    let (mut before, mut differing) = (Vec::new(), blocks(reading, second, snapshot_of_it)?);
    let after = differing.clone();
    let first = reading.request.text("FirstSnapshotId");
    if first.is_some() {
        let (first, earlier) = snapshot(reading, "FirstSnapshotId")?;
        if origin(earlier) != origin(snapshot_of_it) {
            return Err(ApiError::client(
                "ValidationException.UNRELATED_SNAPSHOTS",
                format!("The snapshots '{first}' and '{second}' are not of the same volume."),
            ));
        }
        before = blocks(reading, first, earlier)?;
        differing.extend(&before);
        differing.sort_unstable();
        differing.dedup();
        let is_same = |index: u32| -> Result<bool, ApiError> {
            let is_in = |blocks: &[u32]| blocks.binary_search(&index).is_ok();
            Ok(is_in(&before)
                && is_in(&after)
                && content(reading, first, earlier, index)?
                    == content(reading, second, snapshot_of_it, index)?)
        };
        let mut differ = Vec::new();
        for index in differing {
            if !is_same(index)? {
                differ.push(index);
            }
        }
        differing = differ;
    }
    let first = first.unwrap_or_default();
    listed(
        reading,
        "ChangedBlocks",
        snapshot_of_it,
        differing,
        |index, expiry| {
            let of = |name, snapshot: &str, blocks: &[u32]| {
                let has = blocks.binary_search(&index).is_ok();
                has.then(|| Xml::text(name, token(reading, snapshot, index, expiry)))
            };
            let tokens = [
                of("FirstBlockToken", first, &before),
                of("SecondBlockToken", second, &after),
            ];
            tokens.into_iter().flatten().collect()
        },
    )
}

/// A page of `blocks`, in a list of this name, each with the tokens that `tokens` gives for it and
/// their expiry.
fn listed(
    reading: &Reading<'_>,
    name: &'static str,
    snapshot: &Snapshot,
    blocks: Vec<u32>,
    tokens: impl Fn(u32, i64) -> Vec<Xml>,
) -> Answer {
    let request = reading.request;
    let start = match request.text("NextToken") {
        Some(token) => page(token).ok_or_else(|| invalid("INVALID_PAGE_TOKEN", "pageToken"))?,
        None => number(request, "StartingBlockIndex")?.unwrap_or(0),
    };
    let limit = number(request, "MaxResults")?.unwrap_or(*PAGES.end());
    // A smaller number counts as the least (EBS user guide, *Frequently asked questions*).
    let limit = limit.clamp(*PAGES.start(), *PAGES.end()) as usize;
    let mut rest = blocks.into_iter().filter(|index| *index >= start);
    let listed: Vec<u32> = rest.by_ref().take(limit).collect();
    let expiry = reading.now + TOKEN;
    let items = listed.into_iter().map(|index| {
        let mut item = vec![Xml::text("BlockIndex", index)];
        item.extend(tokens(index, expiry.as_second()));
        item
    });
    let mut answer = vec![
        Xml::list(name, items),
        Xml::text("ExpiryTime", expiry.as_second()),
        Xml::text("VolumeSize", snapshot.gib),
        Xml::text("BlockSize", BLOCK),
    ];
    let next = rest.next().map(|index| blob::encode(&index.to_be_bytes()));
    answer.extend(next.map(|next| Xml::text("NextToken", next)));
    Ok(answer)
}

/// `GetSnapshotBlock`.
pub(super) fn get(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let (id, snapshot) = snapshot(reading, "SnapshotId")?;
    admit(reading, id, GETS)?;
    let index = number(request, "BlockIndex")?
        .ok_or_else(|| invalid("INVALID_PARAMETER_VALUE", "blockIndex"))?;
    let given = request.required("BlockToken")?;
    let good = expiry(given).is_some_and(|expiry| {
        token(reading, id, index, expiry) == given
            && Timestamp::from_second(expiry).is_ok_and(|expiry| reading.now < expiry)
    });
    if !good {
        return Err(invalid("INVALID_BLOCK_TOKEN", "blockToken"));
    }
    let data = content(reading, id, snapshot, index)?;
    let checksum = blob::encode(&Sha256::digest(&data));
    Ok(vec![
        Xml::text("DataLength", data.len()),
        Xml::text("Checksum", checksum),
        Xml::text("ChecksumAlgorithm", "SHA256"),
        Xml::data("BlockData", data),
    ])
}

/// The snapshot that the parameter `name` requests: known, completed, and not being deleted.
fn snapshot<'a>(
    reading: &'a Reading<'_>,
    name: &'static str,
) -> Result<(&'a str, &'a Snapshot), ApiError> {
    let id = reading.request.required(name)?;
    let found = reading.world.snapshots.get(id);
    let found = found.filter(|snapshot| snapshot.deleting.is_none_or(|at| reading.reads < at));
    match found.and_then(|snapshot| Some((snapshot, snapshot.state(reading.reads)?))) {
        Some((snapshot, "completed")) => Ok((id, snapshot)),
        Some((_, state)) => Err(ApiError::client(
            "ValidationException.INVALID_SNAPSHOT_ID",
            format!("The snapshot '{id}' is in the '{state}' state."),
        )),
        None => Err(ApiError {
            status: 404,
            code: "ResourceNotFoundException.SNAPSHOT_NOT_FOUND".to_owned(),
            message: format!("The snapshot '{id}' does not exist."),
        }),
    }
}

fn blocks(reading: &Reading<'_>, id: &str, snapshot: &Snapshot) -> Result<Vec<u32>, ApiError> {
    if snapshot.superblock.is_some() {
        return Ok(vec![0]);
    }
    Ok(reading.inner.plane.blocks(id)?)
}

/// Reads a whole block of a snapshot: the superblock that its record describes, else the plane's.
fn content(
    reading: &Reading<'_>,
    id: &str,
    snapshot: &Snapshot,
    index: u32,
) -> Result<Vec<u8>, ApiError> {
    match &snapshot.superblock {
        Some(superblock) if index == 0 => Ok(superblock.block()),
        _ => Ok(reading.inner.plane.block(id, index)?),
    }
}

fn number(request: Request<'_>, name: &'static str) -> Result<Option<u32>, ApiError> {
    request
        .number(name)
        .map_err(|_| invalid("INVALID_PARAMETER_VALUE", name))
}

/// A block's token: its expiry, and a code that only this folder can compute.
fn token(reading: &Reading<'_>, snapshot: &str, index: u32, expiry: i64) -> String {
    let mut digest = Sha256::new();
    digest.update(&reading.inner.credentials.secret_access_key);
    digest.update(format!("{snapshot} {index} {expiry}"));
    let mut token = expiry.to_be_bytes().to_vec();
    token.extend_from_slice(&digest.finalize()[..24]);
    blob::encode(&token)
}

/// The expiry that a token names, in seconds since 1970.
fn expiry(token: &str) -> Option<i64> {
    let bytes = blob::decode(token)?;
    Some(i64::from_be_bytes(*bytes.first_chunk()?))
}

/// The next block, in a page token.
fn page(token: &str) -> Option<u32> {
    let bytes = blob::decode(token)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn invalid(reason: &str, name: &str) -> ApiError {
    ApiError::client(
        format!("ValidationException.{reason}"),
        format!("The value of {name} is not valid."),
    )
}
