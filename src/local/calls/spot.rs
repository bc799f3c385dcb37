//! Spot: prices, and the one-time requests behind spot instances.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::{bad_value, no_such, zone};
use super::{Answer, Reading, tags};
use crate::local::catalog::{self, TYPES, dollars};
use crate::local::records::{Instance, InstanceState};
use crate::local::wire::{ApiError, Xml};

/// The only product here.
const PRODUCT: &str = "Linux/UNIX";

/// `DescribeSpotPriceHistory`: prices never change here, so that each has one entry, which holds
/// at any `StartTime`.
pub(super) fn prices(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let region = &reading.inner.region;
    for name in ["StartTime", "EndTime"] {
        if let Some(time) = request.text(name) {
            time.parse::<Timestamp>()
                .map_err(|_| bad_value(time, name))?;
        }
    }
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
            let price = dollars(kind.spot_price(index));
            let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
                "availability-zone" => Field::one(&zone.name),
                "availability-zone-id" => Field::one(&zone.id),
                "instance-type" => Field::one(kind.name),
                "product-description" => Field::one(PRODUCT),
                "spot-price" => Field::one(&price),
                _ => Field::Unknown,
            })?;
            if passes {
                let item = vec![
                    Xml::text("instanceType", kind.name),
                    Xml::text("productDescription", PRODUCT),
                    Xml::text("spotPrice", &price),
                    // The start of the current hour: EC2 too dates a price before the call.
                    Xml::text("timestamp", stamp(hour(reading.now))),
                    Xml::text("availabilityZone", &zone.name),
                    Xml::text("availabilityZoneId", &zone.id),
                ];
                found.push((format!("{} {}", kind.name, zone.name), item));
            }
        }
    }
    Ok(page.answer("spotPriceHistorySet", found))
}

fn hour(now: Timestamp) -> Timestamp {
    let second = now.as_second();
    Timestamp::from_second(second - second.rem_euclid(3600)).unwrap_or(now)
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
