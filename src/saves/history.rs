//! The record of a drive's generations, and the notes on them.

use std::cmp::Reverse;

use anyhow::anyhow;
use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::drive::tags::{self, Note, Record, SnapshotKind};
use crate::ec2::{self, Ec2, SnapshotState};
use crate::failure::{Exit, Failure};
use crate::ids::{Generation, SnapshotId};
use crate::opener::{Drive, or_interrupted};

/// How many blocks a list of those that differ has: the most.
const PAGE: u16 = 10_000;

/// A snapshot of one of a drive's generations.
pub(crate) struct Saved {
    pub(crate) id: SnapshotId,
    pub(crate) generation: Generation,
    pub(crate) kind: SnapshotKind,
    /// A checkpoint's number within its generation; else 0.
    pub(crate) number: u32,
    pub(crate) state: SnapshotState,
    /// When it was taken.
    pub(crate) taken: Timestamp,
    pub(crate) record: Record,
    /// The original of the copy, if the drive began with it.
    pub(crate) forked_from: Option<String>,
    /// How much of it differs from the last final one before, in bytes, if that is known.
    pub(crate) differs: Option<u64>,
}

/// The drive's snapshots, the newest first. Makes no calls but those that list it, and the blocks that
/// differ.
pub(crate) async fn history(mut drive: Drive) -> Result<Vec<Saved>, Failure> {
    let facts = &drive.facts;
    if facts.volumes.is_empty() && facts.snapshots.is_empty() {
        return Err(Failure::no_drive(&drive.name, &drive.cloud.command));
    }
    let mut saved: Vec<Saved> = facts
        .snapshots
        .iter()
        .filter_map(|snapshot| {
            let tags = tags::read_snapshot(&snapshot.tags).ok()?;
            Some(Saved {
                id: snapshot.id.clone(),
                generation: tags.generation,
                kind: tags.kind,
                number: tags.number,
                state: snapshot.state,
                taken: snapshot.started,
                record: Record::read(&snapshot.tags),
                forked_from: tags::forked_from(&snapshot.tags).map(str::to_owned),
                differs: None,
            })
        })
        .collect();
    saved.sort_by_key(|it| Reverse((it.generation, it.kind, it.number, it.taken)));
    let comparing = compare(&drive.cloud.ec2, &mut saved);
    let compared = or_interrupted(&mut drive.signals, &drive.report, comparing).await?;
    if let Err(error) = compared {
        drive
            .report
            .print(&format!("how much differs is not known: {error}"));
    }
    Ok(saved)
}

/// Sets how much of each snapshot differs from the last final one before it.
async fn compare(ec2: &Ec2, saved: &mut [Saved]) -> Result<(), ec2::Error> {
    let mut comparing = JoinSet::new();
    for (index, later) in saved.iter().enumerate() {
        let is_done = |it: &&Saved| it.state == SnapshotState::Completed;
        let before = saved[index + 1..]
            .iter()
            .filter(is_done)
            .find(|it| it.kind != SnapshotKind::Checkpoint && it.generation < later.generation);
        let Some(before) = before.filter(|_| is_done(&later)) else {
            continue;
        };
        let (ec2, before, later) = (ec2.clone(), before.id.clone(), later.id.clone());
        comparing.spawn(async move { (index, differing(&ec2, &before, &later).await) });
    }
    let mut compared = Ok(());
    for (index, bytes) in comparing.join_all().await {
        match bytes {
            Ok(bytes) => saved[index].differs = Some(bytes),
            // They are of other volumes than each other, as after a copy.
            Err(error) if error.kind == ec2::Kind::Invalid => {}
            Err(error) => compared = Err(error),
        }
    }
    compared
}

/// How much differs between two snapshots, in bytes.
async fn differing(ec2: &Ec2, before: &SnapshotId, later: &SnapshotId) -> Result<u64, ec2::Error> {
    let mut blocks = 0;
    let mut start = Some(0);
    while let Some(at) = start {
        let listed = ec2.changed_blocks(before, later, at, PAGE).await?;
        blocks += listed.blocks.len() as u64;
        start = listed.end;
    }
    Ok(blocks * ec2::BLOCK as u64)
}

/// Writes a note on a generation of the drive; without one on the newest, which may be on its volume
/// still. Returns what has it now.
pub(crate) async fn note(
    mut drive: Drive,
    generation: Option<Generation>,
    note: &Note,
) -> Result<Generation, Failure> {
    let (facts, name, command) = (&drive.facts, &drive.name, &drive.cloud.command);
    let of_volumes = facts
        .volumes
        .iter()
        .map(|volume| (volume.id.to_string(), &volume.tags));
    let of_snapshots = facts
        .snapshots
        .iter()
        .map(|snapshot| (snapshot.id.to_string(), &snapshot.tags));
    let parts: Vec<_> = of_volumes
        .chain(of_snapshots)
        .filter(|(_, tags)| {
            generation.is_none_or(|wanted| {
                tags::read_snapshot(tags).is_ok_and(|it| it.generation == wanted)
            })
        })
        .collect();
    let newest = tags::newest(parts.iter(), |(_, tags)| tags);
    let Some((noted, (id, _))) = newest else {
        return Err(match generation {
            Some(generation) if !facts.snapshots.is_empty() => Failure::new(
                Exit::Unavailable,
                anyhow!("{name} has no snapshot of generation {generation}"),
            )
            .hint(format!("{command} log {name} shows those that it has")),
            _ => Failure::no_drive(name, command),
        });
    };
    let tags = tags::noted(note);
    let writing = drive.cloud.ec2.tag(id, &tags);
    or_interrupted(&mut drive.signals, &drive.report, writing).await??;
    Ok(noted)
}
