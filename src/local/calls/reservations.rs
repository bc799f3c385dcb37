//! On-Demand Capacity Reservations, and the launches into them.
//!
//! Source: EC2 API reference, `CreateCapacityReservation`, `DescribeCapacityReservations`,
//! `CancelCapacityReservation`; EC2 user guide, *Reserve compute capacity with EC2 On-Demand Capacity
//! Reservations*. Each starts at once, and has no tags.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::{Request, bad_value, missing, new_id, no_such, repeats, zone};
use super::{Answer, Reading};
use crate::catalog::{self, InstanceType};
use crate::change::Change;
use crate::delays::Delays;
use crate::records::{CapacityReservation, InstanceState, Token};
use crate::wire::{ApiError, Xml};
use crate::world::World;

/// The platform of images here.
const LINUX: &str = "Linux/UNIX";

/// The parameter of `RunInstances` that names one.
pub(super) const TARGET: &str =
    "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId";

/// `CreateCapacityReservation`.
pub(super) fn create(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let token = request.token(None);
    for (id, known) in &change.world.capacity_reservations {
        if repeats(known.token.as_ref(), token.as_ref())? {
            let id = id.clone();
            return Ok(made(change, &id));
        }
    }
    let reservation = reservation(request, change, token)?;
    let id = new_id("cr-")?;
    let all = &mut change.world.capacity_reservations;
    all.insert(id.clone(), reservation);
    Ok(made(change, &id))
}

fn made(change: &Change<'_>, id: &str) -> Vec<Xml> {
    let (world, delays) = (&change.world, change.local.delays());
    let known = world.capacity_reservations.get(id);
    let item = known.and_then(|known| item(world, id, known, change.now, delays));
    vec![Xml::node("capacityReservation", item.unwrap_or_default())]
}

fn reservation(
    request: Request<'_>,
    change: &Change<'_>,
    token: Option<Token>,
) -> Result<CapacityReservation, ApiError> {
    let kind = request.required("InstanceType")?;
    if InstanceType::find(kind).is_none() {
        return Err(bad_value(kind, "instanceType"));
    }
    let zone = zone(
        change.local.region(),
        request
            .text("AvailabilityZone")
            .ok_or_else(|| missing("availabilityZone"))?,
    )?;
    let one_of = |name: &'static str, default: &'static str, known: &[&str]| {
        let given = request.text(name).unwrap_or(default);
        let known = known.contains(&given);
        known
            .then(|| given.to_owned())
            .ok_or_else(|| bad_value(given, name))
    };
    let count = request.number("InstanceCount")?.unwrap_or(0);
    if count == 0 {
        return Err(bad_value("0", "instanceCount"));
    }
    let expires = request.text("EndDate").map(|end| {
        let end: Option<Timestamp> = end.parse().ok();
        end.ok_or_else(|| bad_value("of another form", "endDate"))
    });
    let ends = one_of("EndDateType", "unlimited", &["unlimited", "limited"])?;
    if (ends == "limited") != expires.is_some() {
        return Err(bad_value(&ends, "endDateType"));
    }
    Ok(CapacityReservation {
        token,
        kind: kind.to_owned(),
        platform: one_of("InstancePlatform", "", &[LINUX, "SUSE Linux", "Windows"])?,
        zone: zone.name,
        tenancy: one_of("Tenancy", "default", &["default", "dedicated"])?,
        count,
        targeted: one_of("InstanceMatchCriteria", "open", &["open", "targeted"])? == "targeted",
        created: change.now,
        expires: expires.transpose()?,
        cancelled: None,
    })
}

/// `DescribeCapacityReservations`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("CapacityReservationId");
    let at = reading.moment(!ids.is_empty());
    let known = || {
        let all = reading.world.capacity_reservations.iter();
        all.filter_map(|(id, it)| Some((id, it, it.state(at)?)))
    };
    if let Some(id) = ids.iter().find(|id| !known().any(|(it, ..)| it == *id)) {
        return Err(no_such("cr-", id));
    }
    let filters = [
        "availability-zone",
        "instance-platform",
        "instance-type",
        "state",
        "tenancy",
    ];
    let filters = Filters::new(request, &filters, false)?;
    let page = Page::new(request, "DescribeCapacityReservations", 1, !ids.is_empty())?;
    let mut found = Vec::new();
    for (id, reservation, state) in known() {
        let is_named = ids.is_empty() || ids.contains(&id.as_str());
        let passes = filters.pass(&BTreeMap::new(), |name| match name {
            "availability-zone" => Field::one(&reservation.zone),
            "instance-platform" => Field::one(&reservation.platform),
            "instance-type" => Field::one(&reservation.kind),
            "state" => Field::one(state),
            "tenancy" => Field::one(&reservation.tenancy),
            _ => Field::Unknown,
        })?;
        if is_named && passes {
            let item = item(reading.world, id, reservation, at, &reading.inner.delays);
            found.push((id.clone(), item.unwrap_or_default()));
        }
    }
    Ok(page.answer("capacityReservationSet", found))
}

/// `CancelCapacityReservation`: its instances run on.
pub(super) fn cancel(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("CapacityReservationId")?;
    let now = change.now;
    let known = change.world.capacity_reservations.get_mut(id);
    let reservation = known.ok_or_else(|| no_such("cr-", id))?;
    reservation.cancelled.get_or_insert(now);
    Ok(vec![Xml::text("return", true)])
}

/// How many instances run in it at `at`.
fn used(world: &World, id: &str, at: Timestamp, delays: &Delays) -> u32 {
    let all = world.instances.iter();
    let inside = all.filter(|(instance, it)| {
        let state = world.instance(instance, at, delays);
        let runs = state.is_some_and(|(_, state)| {
            !matches!(state, InstanceState::Terminated | InstanceState::Stopped)
        });
        runs && it.capacity.as_deref() == Some(id)
    });
    u32::try_from(inside.count()).unwrap_or(u32::MAX)
}

fn item(
    world: &World,
    id: &str,
    reservation: &CapacityReservation,
    at: Timestamp,
    delays: &Delays,
) -> Option<Vec<Xml>> {
    let state = reservation.state(at)?;
    // Capacity that is released is nobody's.
    let total = if state == "active" {
        reservation.count
    } else {
        0
    };
    let free = total.saturating_sub(used(world, id, at, delays));
    let zones = catalog::zones(&world.region).into_iter();
    let zone_id = zones.filter(|zone| zone.name == reservation.zone);
    let ends = if reservation.expires.is_some() {
        "limited"
    } else {
        "unlimited"
    };
    let criteria = if reservation.targeted {
        "targeted"
    } else {
        "open"
    };
    let mut item = vec![
        Xml::text("capacityReservationId", id),
        Xml::text("ownerId", catalog::ACCOUNT),
        Xml::text("instanceType", &reservation.kind),
        Xml::text("instancePlatform", &reservation.platform),
        Xml::text("availabilityZone", &reservation.zone),
        Xml::text("tenancy", &reservation.tenancy),
        Xml::text("totalInstanceCount", total),
        Xml::text("availableInstanceCount", free),
        Xml::text("ebsOptimized", false),
        Xml::text("state", state),
        Xml::text("createDate", stamp(reservation.created)),
        Xml::text("startDate", stamp(reservation.created)),
        Xml::text("endDateType", ends),
        Xml::text("instanceMatchCriteria", criteria),
        Xml::text("reservationType", "default"),
    ];
    item.extend(zone_id.map(|zone| Xml::text("availabilityZoneId", zone.id)));
    item.extend(
        reservation
            .expires
            .map(|end| Xml::text("endDate", stamp(end))),
    );
    Some(item)
}

/// The reservation in which so many instances of a type in a zone are launched on demand: the one that the
/// request targets, else an open one that matches and has room, if there is one. Spot runs in none (EC2
/// user guide, *Capacity Reservation concepts*).
pub(super) fn target(
    request: Request<'_>,
    (kind, zone, count): (&str, &str, u32),
    is_spot: bool,
    change: &Change<'_>,
) -> Result<Option<String>, ApiError> {
    let targeted = request.text(TARGET);
    if is_spot {
        return match targeted {
            None => Ok(None),
            Some(_) => Err(ApiError::client(
                "InvalidParameterCombination",
                "A Capacity Reservation may not be targeted by a Spot request",
            )),
        };
    }
    let (world, now, delays) = (&change.world, change.now, change.local.delays());
    let has_room = |id: &str, it: &CapacityReservation| {
        it.state(now) == Some("active")
            && (it.kind.as_str(), it.zone.as_str()) == (kind, zone)
            && (it.platform.as_str(), it.tenancy.as_str()) == (LINUX, "default")
            && it.count.saturating_sub(used(world, id, now, delays)) >= count
    };
    let Some(id) = targeted else {
        let mut all = world.capacity_reservations.iter();
        let open = all.find(|(id, it)| !it.targeted && has_room(id, it));
        return Ok(open.map(|(id, _)| id.clone()));
    };
    let known = world.capacity_reservations.get(id);
    if has_room(id, known.ok_or_else(|| no_such("cr-", id))?) {
        return Ok(Some(id.to_owned()));
    }
    // In the words of Amazon EC2 Auto Scaling user guide, *Troubleshoot … failure to launch*.
    Err(ApiError::client(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for \
         this request.",
    ))
}
