//! Spot: prices, and the one-time requests behind spot instances.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::{bad_value, missing, no_such, zone};
use super::{Answer, Reading, tags};
use crate::catalog::{self, InstanceType, TYPES, dollars};
use crate::records::{Instance, InstanceState};
use crate::wire::{ApiError, Xml};

/// The only product here.
const PRODUCT: &str = "Linux/UNIX";

/// How long a price holds, in seconds.
const HOLDS: i64 = 6 * 3600;

/// How far back prices go, in seconds (EC2 user guide, *View Spot Instance pricing history*).
const REMEMBERED: i64 = 90 * 24 * 3600;

/// `DescribeSpotPriceHistory`: the price in force at `StartTime` and every change since, up to
/// `EndTime`. Without `StartTime` it is the price in force alone, and not, as on AWS, 90 days.
pub(super) fn prices(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let region = &reading.inner.region;
    let time = |name: &'static str| {
        let given = request.text(name);
        let parsed = given.map(|time| time.parse().map_err(|_| bad_value(time, name)));
        parsed.unwrap_or(Ok(reading.now))
    };
    let changes = changes(time("StartTime")?, time("EndTime")?, reading.now);
    let only = request
        .text("AvailabilityZone")
        .map(|name| zone(region, name))
        .transpose()?;
    let types = request.list("InstanceType");
    let products = request.list("ProductDescription");
    let product = products.is_empty()
        || products
            .iter()
            .any(|it| matches!(*it, PRODUCT | "Linux/UNIX (Amazon VPC)"));
    let filters = Filters::new(
        request,
        &[
            "availability-zone",
            "availability-zone-id",
            "instance-type",
            "product-description",
            "spot-price",
        ],
        false,
    )?;
    let page = Page::new(request, "DescribeSpotPriceHistory", 1, false)?;
    let mut found = Vec::new();
    for (index, zone) in catalog::zones(region).into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| *only != zone) || !product {
            continue;
        }
        for kind in TYPES
            .iter()
            .filter(|kind| types.is_empty() || types.contains(&kind.name))
        {
            let now = kind.spot_price(index);
            for change in changes.clone() {
                let price = dollars(price_at(change, now, (kind.name, &zone.name), reading.now));
                let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
                    "availability-zone" => Field::one(&zone.name),
                    "availability-zone-id" => Field::one(&zone.id),
                    "instance-type" => Field::one(kind.name),
                    "product-description" => Field::one(PRODUCT),
                    "spot-price" => Field::one(&price),
                    _ => Field::Unknown,
                })?;
                if passes {
                    let since = Timestamp::from_second(change * HOLDS).unwrap_or(reading.now);
                    let item = vec![
                        Xml::text("instanceType", kind.name),
                        Xml::text("productDescription", PRODUCT),
                        Xml::text("spotPrice", &price),
                        Xml::text("timestamp", stamp(since)),
                        Xml::text("availabilityZone", &zone.name),
                        Xml::text("availabilityZoneId", &zone.id),
                    ];
                    found.push((format!("{} {} {change}", kind.name, zone.name), item));
                }
            }
        }
    }
    Ok(page.answer("spotPriceHistorySet", found))
}

/// The numbers of the changes from the one in force at `start` to the last one before `end`. A
/// change has the number of the period that begins with it.
fn changes(start: Timestamp, end: Timestamp, now: Timestamp) -> std::ops::RangeInclusive<i64> {
    let earliest = now.as_second() - REMEMBERED;
    let number = |time: Timestamp| {
        let second = time.as_second().clamp(earliest, now.as_second());
        second.div_euclid(HOLDS)
    };
    number(start)..=number(end)
}

/// The price since that change, in millionths of a dollar. The one in force is the catalogue's, so
/// that what a launch costs does not depend on the day; earlier ones are around it, and the same
/// whenever they are asked for.
fn price_at(change: i64, price: u32, pool: (&str, &str), now: Timestamp) -> u32 {
    if change == now.as_second().div_euclid(HOLDS) {
        return price;
    }
    let draw = |number: i64| u32::from(Sha256::digest(format!("{pool:?} {number}"))[0]);
    // Days differ by up to a third, and what is within one by up to a tenth.
    let percent = 85 + draw(change.div_euclid(4)) * 33 / 255 + draw(change) * 10 / 255;
    price / 100 * percent
}

/// The price of a type in a zone at that moment, spot or on demand, in millionths of a dollar an hour.
pub(crate) fn price_of(
    region: &str,
    (kind, zone): (&str, &str),
    spot: bool,
    at: Timestamp,
    now: Timestamp,
) -> u32 {
    let Some(known) = InstanceType::find(kind) else {
        return 0;
    };
    if !spot {
        return known.on_demand_price();
    }
    let zones = catalog::zones(region);
    let index = zones.iter().position(|it| it.name == zone).unwrap_or(0);
    let change = at.as_second().div_euclid(HOLDS);
    price_at(change, known.spot_price(index), (known.name, zone), now)
}

/// `GetSpotPlacementScores` of types in this region: of its zones, or of the region, which has its best
/// zone's. Attributes in place of types are not known here.
pub(super) fn scores(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let region = &reading.inner.region;
    if request.number("TargetCapacity")? == Some(0) {
        return Err(bad_value("0", "TargetCapacity"));
    }
    if let Some(unit) = request
        .text("TargetCapacityUnitType")
        .filter(|it| *it != "units")
    {
        return Err(bad_value(unit, "TargetCapacityUnitType"));
    }
    let mut types = request.list("InstanceType");
    types.sort_unstable();
    types.dedup();
    if types.is_empty() {
        return Err(missing("InstanceType"));
    }
    if let Some(unknown) = types.iter().find(|name| InstanceType::find(name).is_none()) {
        return Err(bad_value(unknown, "InstanceType"));
    }
    let page = Page::new(request, "GetSpotPlacementScores", 10, false)?;
    let regions = request.list("RegionName");
    let is_asked = regions.is_empty() || regions.contains(&region.as_str());
    let zones = catalog::zones(region);
    let score = |zone: usize| Xml::text("score", catalog::placement_score(zone, types.len()));
    let mut found = Vec::new();
    if request.flag("SingleAvailabilityZone")?.unwrap_or(false) {
        for (index, zone) in zones.iter().enumerate() {
            let id = Xml::text("availabilityZoneId", &zone.id);
            found.push((
                zone.id.clone(),
                vec![Xml::text("region", region), id, score(index)],
            ));
        }
    } else {
        let best = vec![Xml::text("region", region), score(zones.len() - 1)];
        found.push((region.clone(), best));
    }
    found.retain(|_| is_asked);
    Ok(page.answer("spotPlacementScoreSet", found))
}

/// `DescribeSpotInstanceRequests`.
pub(super) fn requests(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("SpotInstanceRequestId");
    let at = reading.moment(!ids.is_empty());
    let delays = &reading.inner.delays;
    let world = reading.world;
    let mut all = Vec::new();
    for instance_id in world.instances.keys() {
        if let Some((instance, state)) = world.instance(instance_id, at, delays)
            && let Some(spot) = &instance.spot
        {
            all.push((spot, instance_id, instance, status(instance, state, at)));
        }
    }
    for id in &ids {
        if !all.iter().any(|(spot, ..)| spot.id == *id) {
            return Err(match no_such("sir-", id) {
                error if error.code.ends_with("NotFound") => ApiError::client(
                    error.code,
                    format!("The spot instance request ID '{id}' does not exist"),
                ),
                error => error,
            });
        }
    }
    let filters = Filters::new(
        request,
        &[
            "create-time",
            "instance-id",
            "launched-availability-zone",
            "spot-instance-request-id",
            "state",
            "status-code",
            "type",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeSpotInstanceRequests", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for (spot, instance_id, instance, status) in all {
        let wanted = ids.is_empty() || ids.contains(&spot.id.as_str());
        let passes = filters.pass(&spot.tags.at(at), |filter| match filter {
            "create-time" => Field::one(stamp(instance.launched)),
            "instance-id" => Field::one(instance_id),
            "launched-availability-zone" => Field::one(&instance.zone),
            "spot-instance-request-id" => Field::one(&spot.id),
            "state" => Field::one(status.state),
            "status-code" => Field::one(status.code),
            "type" => Field::one("one-time"),
            _ => Field::Unknown,
        })?;
        if wanted && passes {
            let mut item = vec![
                Xml::text("spotInstanceRequestId", &spot.id),
                Xml::text("type", "one-time"),
                Xml::text("state", status.state),
                Xml::node(
                    "status",
                    [
                        Xml::text("code", status.code),
                        Xml::text("message", status.message),
                        Xml::text("updateTime", stamp(status.since)),
                    ],
                ),
                Xml::text("instanceId", instance_id),
                Xml::text("createTime", stamp(instance.launched)),
                Xml::text("productDescription", PRODUCT),
                Xml::text("launchedAvailabilityZone", &instance.zone),
                Xml::text("instanceInterruptionBehavior", "terminate"),
                tags::set(&spot.tags, at),
            ];
            item.extend(
                spot.max_price
                    .as_ref()
                    .map(|price| Xml::text("spotPrice", price)),
            );
            found.push((spot.id.clone(), item));
        }
    }
    Ok(page.answer("spotInstanceRequestSet", found))
}

/// The status of a request (EC2 user guide, *Get the status of a Spot Instance request* and *State
/// changes for a Spot request*). An interruption shows from its notice on: the request is closed at
/// once, while the instance runs on until the end that was announced.
struct Status {
    state: &'static str,
    code: &'static str,
    message: &'static str,
    since: Timestamp,
}

fn status(instance: &Instance, state: InstanceState, at: Timestamp) -> Status {
    let ending = instance.termination.filter(|ending| ending.since <= at);
    let interruption = instance
        .interruption()
        .filter(|interruption| interruption.noticed <= at)
        .filter(|interruption| ending.is_none_or(|ending| interruption.noticed <= ending.since));
    if let Some(interruption) = interruption {
        return Status {
            state: "closed",
            code: "instance-terminated-no-capacity",
            message: "Your Spot Instance was terminated because there is no Spot capacity \
                      available that matches your request.",
            since: interruption.noticed,
        };
    }
    if instance.spot.as_ref().is_some_and(|spot| spot.locked) {
        return Status {
            state: "failed",
            code: "bad-parameters",
            message: "Instance launch failed because an EBS volume cannot be encrypted. You must grant \
                      the AWSServiceRoleForEC2Spot service-linked role access to any custom KMS keys.",
            since: instance.launched,
        };
    }
    match ending {
        Some(ending) => Status {
            state: if matches!(state, InstanceState::Terminated) {
                "closed"
            } else {
                "active"
            },
            code: "instance-terminated-by-user",
            message: "Spot Instance terminated due to user-initiated termination.",
            since: ending.since,
        },
        None => Status {
            state: "active",
            code: "fulfilled",
            message: "Your Spot request is fulfilled.",
            since: instance.launched,
        },
    }
}
