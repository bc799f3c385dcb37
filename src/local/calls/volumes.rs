//! Volumes: making, describing and deleting them. Attaching is in `attachments`.

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::{Request, bad_value, missing, new_id, no_such, repeats, zone};
use super::{Answer, Reading, attachments, rights, snapshots, tags};
use crate::catalog;
use crate::change::Change;
use crate::delays::Delays;
use crate::plane::{Source, Speed};
use crate::records::{Tags, Volume};
use crate::wire::{ApiError, Xml};
use crate::world::Intent;

const FILTERS: &[&str] = &[
    "attachment.attach-time",
    "attachment.delete-on-termination",
    "attachment.device",
    "attachment.instance-id",
    "attachment.status",
    "availability-zone",
    "create-time",
    "encrypted",
    "size",
    "snapshot-id",
    "status",
    "volume-id",
    "volume-type",
];

/// The largest volumes, in GiB (EC2 API reference, `CreateVolume`).
const LARGEST_GP2: u32 = 16_384;
const LARGEST_GP3: u32 = 65_536;

/// `CreateVolume`: empty, or from a completed snapshot. A size below the snapshot's is rounded up
/// to it, as observed on EC2.
pub(super) fn create(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let zone = pick_zone(request, change.local.region())?;
    let token = request.token(Some(&zone.name));
    for (id, volume) in &change.world.volumes {
        if repeats(volume.token.as_ref(), token.as_ref())? {
            return Ok(item(id, volume, change.now, change.local.delays()));
        }
    }
    let now = change.now;
    let delays = change.local.delays();
    let snapshot = request.text("SnapshotId");
    let asked = request.number("Size")?;
    let (least, source_key) = match snapshot {
        None => (None, None),
        Some(id) => {
            let known = change.world.snapshots.get(id);
            let known = known.and_then(|known| Some((known, known.state(now)?)));
            let (known, state) = known.ok_or_else(|| no_such("snap-", id))?;
            if state != "completed" {
                return Err(ApiError::client(
                    "IncorrectState",
                    format!("Snapshot is in invalid state - {state}"),
                ));
            }
            let key = known.encrypted.then(|| known.key.clone());
            (Some(known.gib), key)
        }
    };
    let gib = match (asked, least) {
        (Some(asked), least) => asked.max(least.unwrap_or(0)),
        (None, Some(least)) => least,
        (None, None) => return Err(missing("size/snapshot")),
    };
    let kind = request.text("VolumeType").unwrap_or("gp2");
    if !matches!(kind, "gp2" | "gp3") {
        return Err(bad_value(kind, "volumeType"));
    }
    check_size(kind, gib)?;
    let asked = Performance {
        iops: request.number("Iops")?,
        throughput: request.number("Throughput")?,
    };
    let performance = asked.completed_for(kind, gib)?;
    let Performance { iops, throughput } = performance;
    let initialization = initialization(request)?;
    let encrypted = request.flag("Encrypted")?.unwrap_or(false) || source_key.is_some();
    let own = change.local.default_key().filter(|_| encrypted);
    let key = source_key.unwrap_or(own.map(str::to_owned));
    // Nothing says so but the volume's state (EBS user guide, *Requirements for Amazon EBS
    // encryption*).
    let is_locked = key
        .as_ref()
        .is_some_and(|key| !rights::may_use_key(change.caller, key, &rights::OF_A_DISK));
    let mut specified = request.tag_specifications(&["volume"])?;
    let id = new_id("vol-")?;
    let lazy = change.local.lazy().cloned();
    change.effect(Intent::Sweep, |plane| {
        let source = snapshot.map(|snapshot| Source {
            snapshot,
            lazy: lazy.as_ref(),
            rate: initialization,
            speed: performance.speed(),
        });
        plane.create_volume(&id, gib, source)
    })?;
    let source = snapshot.and_then(|id| change.world.snapshots.get(id));
    let volume = Volume {
        token,
        zone: zone.name,
        gib,
        kind: kind.to_owned(),
        iops,
        throughput,
        initialization,
        encrypted,
        key,
        snapshot: snapshot.map(str::to_owned),
        root: false,
        created: now,
        available: now + delays.available,
        failed: is_locked.then_some(now),
        deleting: None,
        deleted: None,
        attachments: Vec::new(),
        modifications: Vec::new(),
        superblock: source.and_then(|source| source.superblock.clone()),
        origin: source.map(|source| snapshots::origin(source).to_owned()),
        tags: Tags::new(now, &specified.remove("volume").unwrap_or_default()),
    };
    let answer = item(&id, &volume, now, delays);
    change.world.volumes.insert(id, volume);
    Ok(answer)
}

/// The rate at which it is filled from its snapshot, if one is asked for.
fn initialization(request: Request<'_>) -> Result<Option<u32>, ApiError> {
    let rate = request.number("VolumeInitializationRate")?;
    if rate.is_some_and(|rate| !(100..=300).contains(&rate)) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "The volume initialization rate must be between 100 and 300 MiB/s",
        ));
    }
    if rate.is_some() && request.text("SnapshotId").is_none() {
        return Err(ApiError::client(
            "InvalidParameterCombination",
            "A volume initialization rate is only supported for volumes created from snapshots",
        ));
    }
    Ok(rate)
}

/// The zone, by name or by id.
fn pick_zone(request: Request<'_>, region: &str) -> Result<catalog::Zone, ApiError> {
    match (
        request.text("AvailabilityZone"),
        request.text("AvailabilityZoneId"),
    ) {
        (Some(name), None) => zone(region, name),
        (None, Some(id)) => {
            let found = catalog::zones(region)
                .into_iter()
                .find(|zone| zone.id == id);
            found.ok_or_else(|| bad_value(id, "availabilityZoneId"))
        }
        (None, None) => Err(missing("zone")),
        (Some(_), Some(_)) => Err(ApiError::client(
            "InvalidParameterCombination",
            "The parameters AvailabilityZone and AvailabilityZoneId cannot be used together",
        )),
    }
}

/// Refuses a size that no volume of this type has.
pub(super) fn check_size(kind: &str, gib: u32) -> Result<(), ApiError> {
    let largest = if kind == "gp2" {
        LARGEST_GP2
    } else {
        LARGEST_GP3
    };
    if (1..=largest).contains(&gib) {
        return Ok(());
    }
    Err(ApiError::client(
        "InvalidParameterValue",
        format!(
            "Volume of {gib} GiB is invalid for volume type {kind}: must be between 1 and {largest} GiB"
        ),
    ))
}

/// Operations a second, and MiB a second (EBS user guide, *General Purpose SSD volumes*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Performance {
    pub(super) iops: Option<u32>,
    pub(super) throughput: Option<u32>,
}

impl Performance {
    fn speed(self) -> Speed {
        let baseline = Speed::default();
        Speed {
            throughput: self.throughput.unwrap_or(baseline.throughput),
            iops: self.iops.unwrap_or(baseline.iops),
        }
    }

    /// The performance of a volume of this type and size for which this one was asked.
    pub(super) fn completed_for(self, kind: &str, gib: u32) -> Result<Self, ApiError> {
        if kind == "gp2" {
            return match (self.iops, self.throughput) {
                (None, None) => Ok(Self {
                    iops: Some((gib * 3).clamp(100, 16_000)),
                    throughput: None,
                }),
                (Some(_), _) => Err(ApiError::client(
                    "InvalidParameterCombination",
                    "The parameter iops is not supported for gp2 volumes.",
                )),
                (None, Some(_)) => Err(ApiError::client(
                    "InvalidParameterCombination",
                    "The parameter throughput is not supported for gp2 volumes.",
                )),
            };
        }
        let (iops, throughput) = (self.iops.unwrap_or(3000), self.throughput.unwrap_or(125));
        if !(3000..=80_000).contains(&iops) {
            return Err(bad_value(&iops.to_string(), "iops"));
        }
        if !(125..=2000).contains(&throughput) {
            return Err(bad_value(&throughput.to_string(), "throughput"));
        }
        if iops > gib.saturating_mul(500).max(3000) {
            return Err(ApiError::client(
                "InvalidParameterValue",
                format!(
                    "Iops to volume size ratio of {:.6} is too high; maximum is 500.000000 iops per GiB.",
                    f64::from(iops) / f64::from(gib)
                ),
            ));
        }
        if throughput * 4 > iops {
            return Err(ApiError::client(
                "InvalidParameterValue",
                format!(
                    "Throughput (MiBps) to iops ratio of {:.6} is too high; maximum is 0.250000 MiBps per iops.",
                    f64::from(throughput) / f64::from(iops)
                ),
            ));
        }
        Ok(Self {
            iops: Some(iops),
            throughput: Some(throughput),
        })
    }
}

/// `DescribeVolumes`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("VolumeId");
    let at = reading.moment(!ids.is_empty());
    let delays = &reading.inner.delays;
    let volumes = &reading.world.volumes;
    for id in &ids {
        if volumes
            .get(*id)
            .and_then(|volume| volume.state(at))
            .is_none()
        {
            return Err(no_such("vol-", id));
        }
    }
    let filters = Filters::new(request, FILTERS, true)?;
    let page = Page::new(request, "DescribeVolumes", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for (id, volume) in volumes {
        let Some(state) = volume.state(at) else {
            continue;
        };
        let wanted = ids.is_empty() || ids.contains(&id.as_str());
        if wanted
            && filters.pass(&volume.tags.at(at), |name| {
                field(id, volume, state, at, delays, name)
            })?
        {
            found.push((id.clone(), item(id, volume, at, delays)));
        }
    }
    Ok(page.answer("volumeSet", found))
}

fn field(
    id: &str,
    volume: &Volume,
    state: &str,
    at: Timestamp,
    delays: &Delays,
    name: &str,
) -> Field {
    let (attachment, shape) = (volume.attachment(at), volume.shape(at));
    match name {
        "attachment.attach-time" => Field::maybe(attachment.map(|it| stamp(it.attaching))),
        "attachment.delete-on-termination" => Field::maybe(attachment.map(|it| it.deletes(at))),
        "attachment.device" => Field::maybe(attachment.map(|it| &it.device)),
        "attachment.instance-id" => Field::maybe(attachment.map(|it| &it.instance)),
        "attachment.status" => Field::maybe(attachment.map(|it| it.status(at, delays.detached))),
        "availability-zone" => Field::one(&volume.zone),
        "create-time" => Field::one(stamp(volume.created)),
        "encrypted" => Field::one(volume.encrypted),
        "size" => Field::one(shape.gib),
        "snapshot-id" => Field::maybe(volume.snapshot.as_ref()),
        "status" => Field::one(state),
        "volume-id" => Field::one(id),
        "volume-type" => Field::one(&shape.kind),
        _ => Field::Unknown,
    }
}

/// A volume's element in `DescribeVolumes` and `CreateVolume`, as EC2 writes it.
fn item(id: &str, volume: &Volume, at: Timestamp, delays: &Delays) -> Vec<Xml> {
    let (attachment, shape) = (volume.attachment(at), volume.shape(at));
    let mut item = vec![
        Xml::text("volumeId", id),
        Xml::text("size", shape.gib),
        Xml::text("snapshotId", volume.snapshot.as_deref().unwrap_or_default()),
        Xml::text("availabilityZone", &volume.zone),
        Xml::text("status", volume.state(at).unwrap_or("deleted")),
        Xml::text("createTime", stamp(volume.created)),
        Xml::list(
            "attachmentSet",
            attachment.map(|attachment| attachments::item(id, attachment, at, delays)),
        ),
        Xml::text("volumeType", &shape.kind),
        Xml::text("encrypted", volume.encrypted),
        Xml::text("multiAttachEnabled", false),
    ];
    item.extend(shape.iops.map(|iops| Xml::text("iops", iops)));
    let throughput = shape.throughput;
    item.extend(throughput.map(|throughput| Xml::text("throughput", throughput)));
    let rate = volume.initialization;
    item.extend(rate.map(|rate| Xml::text("volumeInitializationRate", rate)));
    item.push(tags::set(&volume.tags, at));
    item
}

/// `DeleteVolume`: one that is attached to nothing.
pub(super) fn delete(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("VolumeId")?;
    let now = change.now;
    let lingers = change.local.delays().deleted;
    let volume = change.world.volumes.get_mut(id);
    let volume = volume.filter(|volume| volume.state(now).is_some() && volume.deleting.is_none());
    let volume = volume.ok_or_else(|| no_such("vol-", id))?;
    if let Some(attachment) = volume.attachment(now) {
        return Err(ApiError::client(
            "VolumeInUse",
            format!(
                "Volume {id} is currently attached to {}",
                attachment.instance
            ),
        ));
    }
    if volume.state(now) == Some("creating") {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Volume '{id}' is in the 'creating' state."),
        ));
    }
    volume.deleting = Some(now);
    volume.deleted = Some(now + lingers);
    if !volume.root {
        let effect = change.effect(Intent::Sweep, |plane| plane.delete_volume(id));
        effect?;
    }
    Ok(vec![Xml::text("return", true)])
}
