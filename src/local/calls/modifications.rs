//! Changes of volumes' sizes and speeds (EBS user guide, *Modify a volume using Elastic Volumes operations*).

use jiff::{SignedDuration, Timestamp};

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::{Request, bad_value, missing, no_such};
use super::volumes::{self, Performance};
use super::{Answer, Reading};
use crate::change::Change;
use crate::records::{Modification, Shape};
use crate::wire::{ApiError, Xml};

const FILTERS: &[&str] = &[
    "modification-state",
    "original-iops",
    "original-size",
    "original-volume-type",
    "start-time",
    "target-iops",
    "target-size",
    "target-volume-type",
    "volume-id",
];

/// How many modifications a volume may have begun in a day (EBS user guide, *Limitations*, since January 2026; before
/// that one in six hours).
const A_DAY: usize = 4;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// `ModifyVolume`: what is not asked for stays as it is.
pub(super) fn modify(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("VolumeId")?;
    let now = change.now;
    let volume = change.world.volumes.get(id);
    let volume = volume.filter(|volume| volume.state(now).is_some() && volume.deleting.is_none());
    let volume = volume.ok_or_else(|| no_such("vol-", id))?;
    if let Some(state @ ("creating" | "error")) = volume.state(now) {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Volume '{id}' is in the '{state}' state."),
        ));
    }
    let last = volume.modifications.last();
    let state = last.and_then(|last| last.state(now));
    if let Some(state @ ("modifying" | "optimizing")) = state {
        return Err(ApiError::client(
            "IncorrectModificationState",
            format!(
                "Volume {id} cannot be modified in modification state {}",
                state.to_uppercase()
            ),
        ));
    }
    let day = volume.modifications.iter().rev();
    let day: Vec<Timestamp> = day
        .map(|it| it.begun)
        .take_while(|begun| now < *begun + DAY)
        .collect();
    if let (true, Some(first)) = (day.len() >= A_DAY, day.last()) {
        return Err(ApiError::client(
            "VolumeModificationRateExceeded",
            format!(
                "You've reached the maximum modification rate per volume limit. Wait until {} to modify {id} again.",
                stamp(*first + DAY)
            ),
        ));
    }
    let from = volume.shape(now);
    let to = target(request, &from)?;
    let grown = now + change.local.delays().modifying;
    // A root disk is part of its machine, and has no size of its own there.
    let is_disks = to.gib > from.gib && change.world.real && !volume.root;
    let modification = Modification {
        from,
        to,
        begun: now,
        grown,
        completed: grown + change.local.delays().optimizing,
        done: (!is_disks).then_some(now),
    };
    let answer = item(id, &modification, now);
    if let Some(volume) = change.world.volumes.get_mut(id) {
        volume.modifications.push(modification);
    }
    Ok(vec![Xml::node("volumeModification", answer)])
}

/// The shape that is asked for.
fn target(request: Request<'_>, from: &Shape) -> Result<Shape, ApiError> {
    let (size, kind) = (request.number("Size")?, request.text("VolumeType"));
    let speed = (request.number("Iops")?, request.number("Throughput")?);
    if size.is_none() && kind.is_none() && speed == (None, None) {
        return Err(missing("size/volumeType/iops/throughput"));
    }
    let gib = size.unwrap_or(from.gib);
    if gib < from.gib {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "New size cannot be smaller than existing size",
        ));
    }
    let kind = kind.unwrap_or(&from.kind);
    if !matches!(kind, "gp2" | "gp3") {
        return Err(bad_value(kind, "volumeType"));
    }
    volumes::check_size(kind, gib)?;
    let is_kept = kind == from.kind && kind == "gp3";
    let asked = Performance {
        iops: speed.0.or(from.iops.filter(|_| is_kept)),
        throughput: speed.1.or(from.throughput.filter(|_| is_kept)),
    };
    let Performance { iops, throughput } = asked.completed_for(kind, gib)?;
    Ok(Shape {
        gib,
        kind: kind.to_owned(),
        iops,
        throughput,
    })
}

/// `DescribeVolumesModifications`: the last one of each volume that has had any.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("VolumeId");
    let at = reading.moment(!ids.is_empty());
    let last = |id: &str| {
        let volume = reading.world.volumes.get(id)?;
        let mut begun = volume.modifications.iter().rev();
        volume.state(at)?;
        begun.find(|it| it.begun <= at)
    };
    for id in &ids {
        if last(id).is_none() {
            return Err(ApiError::client(
                "InvalidVolumeModification.NotFound",
                format!("Modification for volume '{id}' does not exist."),
            ));
        }
    }
    let filters = Filters::new(request, FILTERS, true)?;
    let page = Page::new(request, "DescribeVolumesModifications", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for (id, volume) in &reading.world.volumes {
        let Some(modification) = last(id) else {
            continue;
        };
        let wanted = ids.is_empty() || ids.contains(&id.as_str());
        let fields = |name: &str| field(id, modification, at, name);
        if wanted && filters.pass(&volume.tags.at(at), fields)? {
            found.push((id.clone(), item(id, modification, at)));
        }
    }
    Ok(page.answer("volumeModificationSet", found))
}

fn field(id: &str, modification: &Modification, at: Timestamp, name: &str) -> Field {
    let Modification { from, to, .. } = modification;
    match name {
        "modification-state" => Field::maybe(modification.state(at)),
        "original-iops" => Field::maybe(from.iops),
        "original-size" => Field::one(from.gib),
        "original-volume-type" => Field::one(&from.kind),
        "start-time" => Field::one(stamp(modification.begun)),
        "target-iops" => Field::maybe(to.iops),
        "target-size" => Field::one(to.gib),
        "target-volume-type" => Field::one(&to.kind),
        "volume-id" => Field::one(id),
        _ => Field::Unknown,
    }
}

/// A modification's element, as EC2 writes it.
fn item(id: &str, modification: &Modification, at: Timestamp) -> Vec<Xml> {
    let Modification { from, to, .. } = modification;
    let state = modification.state(at).unwrap_or("modifying");
    let mut item = vec![
        Xml::text("volumeId", id),
        Xml::text("modificationState", state),
        Xml::text("targetSize", to.gib),
        Xml::text("targetVolumeType", &to.kind),
        Xml::text("targetMultiAttachEnabled", false),
        Xml::text("originalSize", from.gib),
        Xml::text("originalVolumeType", &from.kind),
        Xml::text("originalMultiAttachEnabled", false),
        Xml::text("progress", modification.progress(at)),
        Xml::text("startTime", stamp(modification.begun)),
    ];
    let speeds = [
        ("targetIops", to.iops),
        ("targetThroughput", to.throughput),
        ("originalIops", from.iops),
        ("originalThroughput", from.throughput),
    ];
    let known = speeds.into_iter();
    item.extend(known.filter_map(|(name, value)| Some(Xml::text(name, value?))));
    if at >= modification.completed {
        item.push(Xml::text("endTime", stamp(modification.completed)));
    }
    item
}
