//! Snapshots: a point in time, fixed by the call, then copied.

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::{Request, new_id, no_such};
use super::{Answer, Reading, rights, tags};
use crate::Local;
use crate::catalog;
use crate::change::Change;
use crate::plane::{BLOCK, PlaneError};
use crate::records::{Snapshot, Tags};
use crate::wire::{ApiError, Xml};
use crate::world::Intent;

const FILTERS: &[&str] = &[
    "description",
    "encrypted",
    "owner-alias",
    "owner-id",
    "progress",
    "snapshot-id",
    "start-time",
    "status",
    "volume-id",
    "volume-size",
];

/// Snapshots of one volume that may be pending at once (EBS quotas).
const PENDING: usize = 5;

/// The volume that was made empty, of which this is the state, or that of a volume made of a snapshot
/// of it, and so on.
pub(super) fn origin(snapshot: &Snapshot) -> &str {
    snapshot.origin.as_deref().unwrap_or(&snapshot.volume)
}

/// `CreateSnapshot`. The volume may be attached and written to, and is free at once.
pub(super) fn create(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let volume_id = request.required("VolumeId")?;
    let now = change.now;
    let delays = change.local.delays();
    let volume = change.world.volumes.get(volume_id);
    let volume = volume.and_then(|volume| Some((volume, volume.state(now)?)));
    let (volume, state) = volume.ok_or_else(|| no_such("vol-", volume_id))?;
    if !matches!(state, "available" | "in-use") {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Volume '{volume_id}' is in the '{state}' state."),
        ));
    }
    if volume.root {
        return Err(ApiError::client(
            "UnsupportedOperation",
            "The EC2 in a folder takes no snapshots of root disks",
        ));
    }
    let description = request.text("Description").unwrap_or_default();
    if description.chars().count() > 255 {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "The description of a snapshot has at most 255 characters",
        ));
    }
    let mut specified = request.tag_specifications(&["snapshot"])?;
    // A pending one that was deleted still counts until its copy would be completed.
    let others = || {
        change
            .world
            .snapshots
            .values()
            .filter(|other| other.volume == volume_id)
    };
    if others().any(|other| now < other.started + delays.between_snapshots) {
        return Err(ApiError::client(
            "SnapshotCreationPerVolumeRateExceeded",
            "The maximum per volume CreateSnapshot request rate has been exceeded. Use an \
             increasing or variable sleep interval between requests.",
        ));
    }
    if others()
        .filter(|other| now < other.completed && other.failed.is_none())
        .count()
        >= PENDING
    {
        return Err(ApiError::client(
            "ConcurrentSnapshotLimitExceeded",
            "Maximum allowed in-progress snapshots for a single volume exceeded.",
        ));
    }
    let (gib, encrypted, key) = (volume.shape(now).gib, volume.encrypted, volume.key.clone());
    let (superblock, origin) = (volume.superblock.clone(), volume.origin.clone());
    let id = new_id("snap-")?;
    // On paper there is at most the block of the superblock.
    let mut blocks = usize::from(superblock.is_some());
    change
        .effect(Intent::Sweep, |plane| {
            plane.create_snapshot(&id, volume_id)?;
            blocks = plane.blocks(&id)?.len();
            Ok(())
        })
        .map_err(full)?;
    let snapshot = Snapshot {
        volume: volume_id.to_owned(),
        gib,
        description: description.to_owned(),
        encrypted,
        key,
        started: now,
        completed: now + delays.completed,
        failed: None,
        deleting: None,
        deleted: None,
        full_size: Some((blocks * BLOCK) as u64),
        superblock,
        origin,
        tags: Tags::new(now, &specified.remove("snapshot").unwrap_or_default()),
    };
    let answer = item(&id, &snapshot, now, change.local.region());
    change.world.snapshots.insert(id, snapshot);
    Ok(answer)
}

/// The volume id that EC2 gives to a copy (EBS user guide, *Copy an Amazon EBS snapshot*).
const COPIED: &str = "vol-ffffffff";

/// `CopySnapshot`, of a completed snapshot of this region: there is no other.
pub(super) fn copy(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let source_id = request.required("SourceSnapshotId")?;
    let region = request.required("SourceRegion")?;
    let now = change.now;
    if !catalog::REGIONS.contains(&region) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!("Value ({region}) for parameter sourceRegion is invalid."),
        ));
    }
    let source = change.world.snapshots.get(source_id);
    let source = source.filter(|_| region == change.local.region());
    let source = source.filter(|it| it.deleting.is_none());
    let source = source.and_then(|source| Some((source, source.state(now)?)));
    let (source, state) = source.ok_or_else(|| no_such("snap-", source_id))?;
    if state != "completed" {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Snapshot '{source_id}' is in the '{state}' state."),
        ));
    }
    let description = request.text("Description").unwrap_or_default();
    if description.chars().count() > 255 {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "The description of a snapshot has at most 255 characters",
        ));
    }
    let (encrypted, key) = encryption(request, source, change.local)?;
    let is_locked = key
        .as_ref()
        .is_some_and(|key| !rights::may_use_key(change.caller, key, &rights::OF_A_COPY));
    let mut specified = request.tag_specifications(&["snapshot"])?;
    let id = new_id("snap-")?;
    // Under another key it is a whole copy, which shares no block with its source.
    let is_same = (encrypted, &key) == (source.encrypted, &source.key);
    let origin = if is_same { origin(source) } else { &id };
    let snapshot = Snapshot {
        encrypted,
        failed: is_locked.then_some(now),
        volume: COPIED.to_owned(),
        description: description.to_owned(),
        started: now,
        completed: now + change.local.delays().completed,
        origin: Some(origin.to_owned()),
        key,
        tags: Tags::new(now, &specified.remove("snapshot").unwrap_or_default()),
        ..source.clone()
    };
    change
        .effect(Intent::Sweep, |plane| plane.create_snapshot(&id, source_id))
        .map_err(full)?;
    let answer = vec![Xml::text("snapshotId", &id), tags::set(&snapshot.tags, now)];
    change.world.snapshots.insert(id, snapshot);
    Ok(answer)
}

/// Whether a copy is encrypted, and its key if that is the account's own (EBS user guide, *Encryption
/// outcomes for snapshot copies*; here encryption by default is off).
fn encryption(
    request: Request<'_>,
    source: &Snapshot,
    local: &Local,
) -> Result<(bool, Option<String>), ApiError> {
    let asked = request.flag("Encrypted")?.unwrap_or(false);
    let named = request.text("KmsKeyId");
    let encrypted = asked || source.encrypted;
    if named.is_some() && !encrypted {
        return Err(ApiError::client(
            "InvalidParameterDependency",
            "The parameter KmsKeyId requires the parameter Encrypted to be set.",
        ));
    }
    let own = match named {
        Some(named) => Some(named).filter(|named| *named != catalog::aws_key(local.region())),
        None if source.encrypted => None,
        None => local.default_key().filter(|_| encrypted),
    };
    Ok((encrypted, own.map(str::to_owned)))
}

fn full(error: PlaneError) -> ApiError {
    match error {
        PlaneError::Full(_) => ApiError::client("SnapshotLimitExceeded", error.to_string()),
        error => error.into(),
    }
}

/// `DescribeSnapshots`. All are this account's own; others share none here.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("SnapshotId");
    let at = reading.moment(!ids.is_empty());
    let snapshots = &reading.world.snapshots;
    for id in &ids {
        if snapshots
            .get(*id)
            .and_then(|snapshot| snapshot.state(at))
            .is_none()
        {
            return Err(no_such("snap-", id));
        }
    }
    let named = [request.list("Owner"), request.list("RestorableBy")];
    let own = named.iter().all(|owners| {
        owners.is_empty()
            || owners
                .iter()
                .any(|owner| matches!(*owner, "self" | catalog::ACCOUNT))
    });
    let filters = Filters::new(request, FILTERS, true)?;
    let page = Page::new(request, "DescribeSnapshots", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for (id, snapshot) in snapshots.iter().filter(|_| own) {
        let Some(state) = snapshot.state(at) else {
            continue;
        };
        let wanted = ids.is_empty() || ids.contains(&id.as_str());
        if wanted
            && filters.pass(&snapshot.tags.at(at), |name| {
                field(id, snapshot, state, name)
            })?
        {
            found.push((id.clone(), item(id, snapshot, at, &reading.inner.region)));
        }
    }
    Ok(page.answer("snapshotSet", found))
}

fn field(id: &str, snapshot: &Snapshot, state: &str, name: &str) -> Field {
    match name {
        "description" => Field::one(&snapshot.description),
        "encrypted" => Field::one(snapshot.encrypted),
        "owner-alias" => Field::Values(Vec::new()),
        "owner-id" => Field::one(catalog::ACCOUNT),
        "progress" => Field::one(progress(state)),
        "snapshot-id" => Field::one(id),
        "start-time" => Field::one(stamp(snapshot.started)),
        "status" => Field::one(state),
        "volume-id" => Field::one(&snapshot.volume),
        "volume-size" => Field::one(snapshot.gib),
        _ => Field::Unknown,
    }
}

/// `Progress`: EBS reports 99 % from the start.
fn progress(state: &str) -> &'static str {
    match state {
        "completed" => "100%",
        "pending" => "99%",
        _ => "",
    }
}

fn item(id: &str, snapshot: &Snapshot, at: Timestamp, region: &str) -> Vec<Xml> {
    let state = snapshot.state(at).unwrap_or("completed");
    let mut item = vec![
        Xml::text("snapshotId", id),
        Xml::text("volumeId", &snapshot.volume),
        Xml::text("status", state),
        Xml::text("startTime", stamp(snapshot.started)),
        Xml::text("progress", progress(state)),
        Xml::text("ownerId", catalog::ACCOUNT),
        Xml::text("volumeSize", snapshot.gib),
        Xml::text("description", &snapshot.description),
        Xml::text("encrypted", snapshot.encrypted),
        Xml::text("storageTier", "standard"),
        tags::set(&snapshot.tags, at),
    ];
    let key = snapshot.key.clone();
    item.extend(snapshot.encrypted.then(|| {
        let key = key.unwrap_or_else(|| catalog::aws_key(region));
        Xml::text("kmsKeyId", key)
    }));
    match state {
        "completed" => {
            item.push(Xml::text("completionTime", stamp(snapshot.completed)));
            let size = snapshot.full_size;
            item.extend(size.map(|bytes| Xml::text("fullSnapshotSizeInBytes", bytes)));
        }
        "error" => {
            // As EBS says it of a copy whose key the caller may not use.
            let is_locked = snapshot.failed == Some(snapshot.started);
            let why = if is_locked {
                "Given key ID is not accessible"
            } else {
                "The copy of this snapshot failed"
            };
            item.push(Xml::text("statusMessage", why));
        }
        _ => {}
    }
    item
}

/// `DeleteSnapshot`, pending or not. Volumes made from it are whole and stay.
pub(super) fn delete(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("SnapshotId")?;
    let now = change.now;
    let lingers = change.local.delays().deleted;
    let snapshot = change.world.snapshots.get_mut(id);
    let snapshot = snapshot.filter(|it| it.state(now).is_some() && it.deleting.is_none());
    let snapshot = snapshot.ok_or_else(|| no_such("snap-", id))?;
    snapshot.deleting = Some(now);
    snapshot.deleted = Some(now + lingers);
    change.effect(Intent::Sweep, |plane| plane.delete_snapshot(id))?;
    Ok(vec![Xml::text("return", true)])
}
