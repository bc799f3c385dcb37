//! The limits of an account's launches: its plan, and its quotas of vCPUs (Service Quotas).
//!
//! Names and codes are those of the Amazon EC2 endpoints and quotas page (AWS General Reference,
//! *Amazon EC2 instance type quotas*), for the families that are sold here. Quotas without a
//! setting have no limit, and are unknown to `GetServiceQuota`.

use super::order::{Market, Order};
use super::{Answer, Reading};
use crate::catalog::InstanceType;
use crate::change::Change;
use crate::records::InstanceState;
use crate::settings::Plan;
use crate::wire::{ApiError, Xml};

/// A quota: its code and its name.
type Quota = (&'static str, &'static str);

/// The quotas of G and VT, as spot and on demand.
const GRAPHICS: [Quota; 2] = [
    ("L-3819A6DF", "All G and VT Spot Instance Requests"),
    ("L-DB2E81BA", "Running On-Demand G and VT instances"),
];

/// The quotas of nearly all other types sold here.
const STANDARD: [Quota; 2] = [
    (
        "L-34B43A08",
        "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    ),
    (
        "L-1216C47A",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    ),
];

/// The code of the quota that a type counts against.
fn code_of(kind: &InstanceType, is_spot: bool) -> &'static str {
    let [spot, on_demand] = if kind.name.starts_with('g') {
        GRAPHICS
    } else {
        STANDARD
    };
    if is_spot { spot.0 } else { on_demand.0 }
}

/// Refuses what the account's plan or quotas do not allow. Dry runs never get here: EC2 answers
/// them before it checks either.
pub(super) fn check(order: &Order, change: &Change<'_>) -> Result<(), ApiError> {
    let inner = &change.local.0;
    if inner.plan == Plan::Free && !order.kind.is_free() {
        return Err(ApiError::client(
            "InvalidParameterCombination",
            "The specified instance type is not eligible for Free Tier. For a list of Free Tier \
             instance types, run 'describe-instance-types' with the filter \
             'free-tier-eligible=true'.",
        ));
    }
    let is_spot = matches!(order.market, Market::Spot { .. });
    let code = code_of(order.kind, is_spot);
    let Some(limit) = inner.quotas.get(code) else {
        return Ok(());
    };
    let delays = change.local.delays();
    let used: u32 = change
        .world
        .instances
        .keys()
        .filter_map(|id| change.world.instance(id, change.now, delays))
        .filter(|(_, state)| matches!(state, InstanceState::Pending | InstanceState::Running))
        .filter(|(instance, _)| instance.spot.is_some() == is_spot)
        .filter_map(|(instance, _)| InstanceType::find(&instance.kind))
        .filter(|kind| code_of(kind, is_spot) == code)
        .map(|kind| kind.vcpus)
        .sum();
    if used + order.kind.vcpus * order.count <= *limit {
        return Ok(());
    }
    Err(if is_spot {
        ApiError::client(
            "MaxSpotInstanceCountExceeded",
            "Max spot instance count exceeded",
        )
    } else {
        ApiError::client(
            "VcpuLimitExceeded",
            format!(
                "You have requested more vCPU capacity than your current vCPU limit of {limit} \
                 allows for the instance bucket that the specified instance type belongs to. \
                 Please visit http://aws.amazon.com/contact-us/ec2-request to request an \
                 adjustment to this limit."
            ),
        )
    })
}

/// Service Quotas' `GetServiceQuota`.
pub(super) fn get(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let service = request.required("ServiceCode")?;
    let code = request.required("QuotaCode")?;
    let known = GRAPHICS.into_iter().chain(STANDARD);
    let named = { known }.find(|(known, _)| service == "ec2" && *known == code);
    let set = reading.inner.quotas.get(code);
    let (Some((code, name)), Some(value)) = (named, set) else {
        return Err(ApiError::client(
            "NoSuchResourceException",
            format!("The request failed because there is no quota {code} of {service}."),
        ));
    };
    Ok(vec![
        Xml::text("ServiceCode", service),
        Xml::text("QuotaCode", code),
        Xml::text("QuotaName", name),
        Xml::text("Value", value),
    ])
}
