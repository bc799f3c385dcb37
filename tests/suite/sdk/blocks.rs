//! The contents of snapshots: written blocks only, with their checksums.

use std::time::Duration;

use tokio::task::JoinSet;
use xdrive::ec2::{BLOCK, Error, Kind, SnapshotState};
use xdrive::ids::{SnapshotId, VolumeId};
use xdrive::local::plane::PaperSuperblock;
use xdrive::local::{Fault, Preset, Settings};

use super::{tags, until, volume_order};
use crate::folder::Folder;
use harness::faults::connector::Trouble;

const UUID: [u8; 16] = *b"0123456789abcdef";

async fn volume(folder: &Folder) -> VolumeId {
    let id = folder
        .ec2
        .create_volume(&volume_order("one"))
        .await
        .unwrap()
        .id;
    tokio::time::sleep(Duration::from_secs(10)).await;
    id
}

async fn pending(folder: &Folder, volume: &VolumeId) -> SnapshotId {
    folder
        .ec2
        .create_snapshot(volume, &tags(&[]))
        .await
        .unwrap()
        .id
}

async fn completed(folder: &Folder, volume: &VolumeId) -> SnapshotId {
    let id = pending(folder, volume).await;
    until("it is completed", async || {
        let snapshot = folder.ec2.snapshot(&id).await.unwrap()?;
        (snapshot.state == SnapshotState::Completed).then_some(())
    })
    .await;
    id
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_what_was_on_its_volume_when_it_was_taken() {
    let folder = Folder::delayed(Preset::Aws);
    let volume = volume(&folder).await;
    let mounted = PaperSuperblock::mounted(UUID);
    folder
        .local
        .write(volume.as_str(), mounted.clone())
        .unwrap();
    let snapshot = pending(&folder, &volume).await;
    folder
        .local
        .write(volume.as_str(), PaperSuperblock::clean(UUID))
        .unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    folder.connector.calls();
    let block = folder.ec2.snapshot_block(&snapshot, 0).await.unwrap();
    assert_eq!(block.as_deref(), Some(&mounted.block()[..]));
    assert_eq!(block.unwrap().len(), BLOCK);
    assert_eq!(
        folder.connector.calls(),
        ["ListSnapshotBlocks", "GetSnapshotBlock"]
    );
}

#[tokio::test(start_paused = true)]
async fn blocks_that_were_never_written_are_not_there() {
    let folder = Folder::delayed(Preset::Fast);
    let volume = volume(&folder).await;
    let empty = completed(&folder, &volume).await;
    assert_eq!(folder.ec2.snapshot_block(&empty, 0).await.unwrap(), None);
    folder
        .local
        .write(empty.as_str(), PaperSuperblock::clean(UUID))
        .unwrap();
    assert_eq!(folder.ec2.snapshot_block(&empty, 1).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_not_whole_or_not_there_says_which() {
    let folder = Folder::delayed(Preset::Aws);
    let volume = volume(&folder).await;
    let id = pending(&folder, &volume).await;
    let error = folder.ec2.snapshot_block(&id, 0).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound, "it is not to be seen yet");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let error = folder.ec2.snapshot_block(&id, 0).await.unwrap_err();
    assert_eq!(error.code, "ValidationException");
    assert_eq!(error.kind, Kind::Invalid);
    assert!(error.message.contains("'pending'"), "{error}");
    let unknown = "snap-0123456789abcdef0".parse().unwrap();
    let error = folder.ec2.snapshot_block(&unknown, 0).await.unwrap_err();
    assert_eq!(error.code, "ResourceNotFoundException");
    assert_eq!(error.kind, Kind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_may_not_ask_is_refused_at_once() {
    let folder = Folder::delayed(Preset::Fast);
    let volume = volume(&folder).await;
    let id = completed(&folder, &volume).await;
    let denied = Fault::new("ListSnapshotBlocks", 403, "AccessDeniedException", "no");
    folder.local.plant(denied).unwrap();
    folder.connector.calls();
    let error = folder.ec2.snapshot_block(&id, 0).await.unwrap_err();
    assert_eq!(error.kind, Kind::Denied);
    assert_eq!(error.message, "no");
    assert_eq!(folder.connector.calls(), ["ListSnapshotBlocks"]);
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_service_are_waited_out() {
    let folder = Folder::delayed(Preset::Fast);
    let volume = volume(&folder).await;
    folder
        .local
        .write(volume.as_str(), PaperSuperblock::clean(UUID))
        .unwrap();
    let id = completed(&folder, &volume).await;
    let throttled = Fault::throttled("ListSnapshotBlocks", 1);
    folder.local.plant(throttled).unwrap();
    let failed = Fault::new("GetSnapshotBlock", 500, "InternalError", "an error");
    folder.local.plant(failed).unwrap();
    let block = folder.ec2.snapshot_block(&id, 0).await.unwrap();
    assert_eq!(block, Some(PaperSuperblock::clean(UUID).block().into()));
}

#[tokio::test(start_paused = true)]
async fn a_block_that_was_changed_on_its_way_is_not_believed() {
    let folder = Folder::delayed(Preset::Fast);
    let volume = volume(&folder).await;
    folder
        .local
        .write(volume.as_str(), PaperSuperblock::clean(UUID))
        .unwrap();
    let id = completed(&folder, &volume).await;
    folder.connector.trouble(
        "GetSnapshotBlock",
        Trouble::Answered(200, "another block altogether"),
    );
    let error = folder.ec2.snapshot_block(&id, 0).await.unwrap_err();
    assert_eq!(error.kind, Kind::Ambiguous, "{error}");
}

/// Makes as many calls as the reader has under way at once, each again and again.
async fn side_by_side<F>(times: usize, call: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for _ in 0..96 {
        let call = call.clone();
        calls.spawn(async move {
            for _ in 0..times {
                call().await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended.unwrap().unwrap();
    }
}

/// The fault: three attempts in a row were refused of one call among thousands, and ended the reading.
#[tokio::test(start_paused = true)]
async fn a_large_read_passes_although_the_service_allows_only_so_many_calls_a_second() {
    let folder = Folder::new(Settings {
        delays: Some(Preset::Fast),
        // As within a region.
        calls_take_ms: Some(20),
        limit_blocks: Some(true),
        ..Settings::default()
    });
    let volume = volume(&folder).await;
    let superblock = PaperSuperblock::mounted(UUID);
    folder.local.write(volume.as_str(), superblock).unwrap();
    let id = completed(&folder, &volume).await;
    let listed = folder.ec2.written_blocks(&id, 0, 100).await.unwrap();
    let token = listed.token(0).unwrap().to_owned();
    let (ec2, listed) = (folder.ec2.clone(), id.clone());
    side_by_side(2, move || {
        let (ec2, id) = (ec2.clone(), listed.clone());
        async move { ec2.written_blocks(&id, 0, 100).await.map(drop) }
    })
    .await;
    let began = tokio::time::Instant::now();
    let ec2 = folder.ec2.clone();
    side_by_side(60, move || {
        let (ec2, id, token) = (ec2.clone(), id.clone(), token.clone());
        async move { ec2.read_block(&id, 0, &token).await.map(drop) }
    })
    .await;
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(4),
        "{took:?}: there was no limit"
    );
    assert!(took < Duration::from_mins(2), "{took:?}");
}
