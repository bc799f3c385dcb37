//! What is recorded of a drive's generations, and the notes on them.

use std::cmp::Reverse;

use anyhow::anyhow;
use jiff::Timestamp;

use super::prompt::or_interrupted;
use super::request::Request;
use super::state::begin;
use crate::cloud::Cloud;
use crate::drive::tags::{self, Note, Record, SnapshotKind};
use crate::ec2::SnapshotState;
use crate::failure::{Exit, Failure};
use crate::ids::{Generation, SnapshotId};
use crate::ssh::UserKey;

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
}

/// The drive's snapshots, the newest first. Makes no calls but those that list it.
pub(crate) async fn history(
    request: Request,
    cloud: Cloud,
    key: UserKey,
) -> Result<Vec<Saved>, Failure> {
    let command = cloud.command.clone();
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    if facts.volumes.is_empty() && facts.snapshots.is_empty() {
        return Err(Failure::no_drive(&session.request.drive, &command));
    }
    let mut saved: Vec<Saved> = facts
        .snapshots
        .into_iter()
        .filter_map(|snapshot| {
            let tags = tags::read_snapshot(&snapshot.tags).ok()?;
            Some(Saved {
                id: snapshot.id,
                generation: tags.generation,
                kind: tags.kind,
                number: tags.number,
                state: snapshot.state,
                taken: snapshot.started,
                record: Record::read(&snapshot.tags),
            })
        })
        .collect();
    saved.sort_by_key(|it| Reverse((it.generation, it.kind, it.number, it.taken)));
    Ok(saved)
}

/// Writes a note on a generation of the drive; without one on the newest, which may be on its volume
/// still. Returns what has it now.
pub(crate) async fn note(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    (generation, note): (Option<Generation>, Note),
) -> Result<Generation, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let (drive, command) = (&session.request.drive, &session.cloud.command);
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
                anyhow!("{drive} has no snapshot of generation {generation}"),
            )
            .hint(format!("{command} log {drive} shows those that it has")),
            _ => Failure::no_drive(drive, command),
        });
    };
    let tags = tags::noted(&note);
    let writing = session.cloud.ec2.tag(id, &tags);
    or_interrupted(&mut session.signals, &session.report, writing).await??;
    Ok(noted)
}
