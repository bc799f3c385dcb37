//! Elastic IP addresses, and the instances that have them.
//!
//! Source: EC2 API reference, `AllocateAddress`, `AssociateAddress`, `DescribeAddresses`,
//! `DisassociateAddress`, `ReleaseAddress`; EC2 user guide, *Elastic IP addresses*.

use std::net::Ipv4Addr;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::request::{Request, bad_value, missing, new_id, no_such};
use super::{Answer, Reading, tags};
use crate::catalog;
use crate::change::Change;
use crate::plane::ELASTIC;
use crate::records::{Address, Association, InstanceState, Tags};
use crate::wire::{ApiError, Xml};
use crate::world::World;

/// How many addresses an account has in a region (EC2 user guide, *Elastic IP address quota*).
const MOST: usize = 5;

/// `AllocateAddress`, of the VPC and from Amazon's pool.
pub(super) fn allocate(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    if let Some(domain) = request.text("Domain").filter(|domain| *domain != "vpc") {
        return Err(bad_value(domain, "domain"));
    }
    let mut specified = request.tag_specifications(&["elastic-ip"])?;
    if change.world.addresses.len() >= MOST {
        return Err(ApiError::client(
            "AddressLimitExceeded",
            "The maximum number of addresses has been reached.",
        ));
    }
    let id = new_id("eipalloc-")?;
    let ip = free(&change.world, &id).ok_or_else(|| {
        ApiError::client("InsufficientAddressCapacity", "There is no free address.")
    })?;
    let made = Address {
        ip,
        allocated: change.now,
        associations: Vec::new(),
        tags: Tags::new(
            change.now,
            &specified.remove("elastic-ip").unwrap_or_default(),
        ),
    };
    change.world.addresses.insert(id.clone(), made);
    Ok(vec![
        Xml::text("publicIp", ip),
        Xml::text("domain", "vpc"),
        Xml::text("allocationId", id),
        Xml::text("publicIpv4Pool", "amazon"),
        Xml::text("networkBorderGroup", change.local.region()),
    ])
}

/// An address that this world does not have. The search begins at a place that depends on the id, so that
/// other state directories of this computer mostly have others.
fn free(world: &World, id: &str) -> Option<Ipv4Addr> {
    let (first, last) = ELASTIC;
    let start = id.bytes().fold(0_u8, u8::wrapping_add);
    let [a, b, c, _] = first.octets();
    let all = (0..=u8::MAX).map(|step| Ipv4Addr::new(a, b, c, start.wrapping_add(step)));
    let mut all = all.filter(|ip| (first..=last).contains(ip));
    all.find(|ip| !world.addresses.values().any(|it| it.ip == *ip))
}

/// The id of the address that `AllocationId` or `PublicIp` names.
fn id_of(request: Request<'_>, world: &World) -> Result<String, ApiError> {
    if let Some(id) = request.text("AllocationId") {
        let is_known = world.addresses.contains_key(id);
        return is_known
            .then(|| id.to_owned())
            .ok_or_else(|| no_such("eipalloc-", id));
    }
    let ip = request.text("PublicIp");
    let ip = ip.ok_or_else(|| missing("allocationId"))?;
    let mut known = world.addresses.iter();
    let found = known.find(|(_, it)| it.ip.to_string() == ip);
    found
        .map(|(id, _)| id.clone())
        .ok_or_else(|| no_such_ip(ip))
}

fn no_such_ip(ip: &str) -> ApiError {
    ApiError::client(
        "InvalidAddress.NotFound",
        format!("Address '{ip}' not found."),
    )
}

/// `AssociateAddress`: with an instance that runs, which loses the address that it had.
pub(super) fn associate(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = id_of(request, &change.world)?;
    let instance = request.required("InstanceId")?;
    let takes = request.flag("AllowReassociation")?.unwrap_or(true);
    let now = change.now;
    let found = change.world.instance(instance, now, change.local.delays());
    let (_, state) = found.ok_or_else(|| no_such("i-", instance))?;
    if !matches!(state, InstanceState::Running | InstanceState::Stopped) {
        let state = state.name();
        return Err(ApiError::client(
            "InvalidInstanceID",
            format!(
                "The {state} instance '{instance}' is not in a valid state for this operation."
            ),
        ));
    }
    let held = change.world.addresses.get(&id);
    let held = held.and_then(|it| it.association(now)).cloned();
    if let Some(held) = held {
        if held.instance == instance {
            return Ok(associated(&held.id));
        }
        if !takes {
            return Err(ApiError::client(
                "Resource.AlreadyAssociated",
                format!(
                    "resource {id} is already associated with associate-id {}",
                    held.id
                ),
            ));
        }
    }
    let made = Association {
        id: new_id("eipassoc-")?,
        instance: instance.to_owned(),
        since: now,
        until: None,
    };
    change.guarded(|world| {
        for address in world.addresses.values_mut() {
            let at = address.association(now);
            if at.is_some_and(|it| it.instance == instance) {
                address.disassociate(now);
            }
        }
        if let Some(address) = world.addresses.get_mut(&id) {
            address.disassociate(now);
            address.associations.push(made.clone());
        }
    })?;
    Ok(associated(&made.id))
}

fn associated(id: &str) -> Vec<Xml> {
    vec![Xml::text("return", true), Xml::text("associationId", id)]
}

/// `DisassociateAddress`.
pub(super) fn disassociate(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let asked = request.text("AssociationId");
    let ip = request.text("PublicIp");
    let now = change.now;
    let is_it = |address: &Address| {
        let at = address.association(now);
        at.is_some_and(|it| match asked {
            Some(id) => it.id == id,
            None => ip.is_some_and(|ip| address.ip.to_string() == ip),
        })
    };
    let mut known = change.world.addresses.iter();
    let Some(id) = known.find_map(|(id, it)| is_it(it).then(|| id.clone())) else {
        return Err(match (asked, ip) {
            (Some(id), _) => no_such("eipassoc-", id),
            (None, Some(ip)) => no_such_ip(ip),
            (None, None) => missing("associationId"),
        });
    };
    change.guarded(|world| {
        if let Some(address) = world.addresses.get_mut(&id) {
            address.disassociate(now);
        }
    })?;
    Ok(vec![Xml::text("return", true)])
}

/// `ReleaseAddress`: of one that no instance has.
pub(super) fn release(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = id_of(request, &change.world)?;
    let address = change.world.addresses.get(&id);
    if let Some(held) = address.filter(|it| it.association(change.now).is_some()) {
        return Err(ApiError::client(
            "InvalidIPAddress.InUse",
            format!("Address '{}' is in use.", held.ip),
        ));
    }
    change.world.addresses.remove(&id);
    Ok(vec![Xml::text("return", true)])
}

/// `DescribeAddresses`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let (ids, ips) = (request.list("AllocationId"), request.list("PublicIp"));
    let at = reading.moment(!ids.is_empty() || !ips.is_empty());
    let known = || {
        let all = reading.world.addresses.iter();
        all.filter(|(_, it)| it.allocated <= at)
    };
    if let Some(id) = ids.iter().find(|id| !known().any(|(it, _)| it == *id)) {
        return Err(no_such("eipalloc-", id));
    }
    let has = |ip: &str| known().any(|(_, it)| it.ip.to_string() == ip);
    if let Some(ip) = ips.iter().find(|ip| !has(ip)) {
        return Err(no_such_ip(ip));
    }
    let filters = [
        "allocation-id",
        "association-id",
        "domain",
        "instance-id",
        "private-ip-address",
        "public-ip",
    ];
    let filters = Filters::new(request, &filters, true)?;
    let mut found = Vec::new();
    for (id, address) in known() {
        let ip = address.ip.to_string();
        let is_named = (ids.is_empty() || ids.contains(&id.as_str()))
            && (ips.is_empty() || ips.contains(&ip.as_str()));
        let passes = filters.pass(&address.tags.at(at), |name| {
            field(reading.world, id, address, at, name)
        })?;
        if is_named && passes {
            found.push(item(reading, id, address, at));
        }
    }
    Ok(vec![Xml::list("addressesSet", found)])
}

/// The private address of an instance.
fn private(world: &World, instance: &str) -> Option<Ipv4Addr> {
    let instance = world.instances.get(instance);
    instance.map(|instance| instance.machine.address)
}

fn field(world: &World, id: &str, address: &Address, at: Timestamp, name: &str) -> Field {
    let held = address.association(at);
    match name {
        "allocation-id" => Field::one(id),
        "association-id" => Field::maybe(held.map(|it| &it.id)),
        "domain" => Field::one("vpc"),
        "instance-id" => Field::maybe(held.map(|it| &it.instance)),
        "private-ip-address" => Field::maybe(held.and_then(|it| private(world, &it.instance))),
        "public-ip" => Field::one(address.ip),
        _ => Field::Unknown,
    }
}

fn item(reading: &Reading<'_>, id: &str, address: &Address, at: Timestamp) -> Vec<Xml> {
    let mut item = vec![
        Xml::text("publicIp", address.ip),
        Xml::text("allocationId", id),
        Xml::text("domain", "vpc"),
        Xml::text("publicIpv4Pool", "amazon"),
        Xml::text("networkBorderGroup", &reading.world.region),
    ];
    if let Some(held) = address.association(at) {
        item.extend([
            Xml::text("associationId", &held.id),
            Xml::text("instanceId", &held.instance),
            Xml::text("networkInterfaceOwnerId", catalog::ACCOUNT),
        ]);
        let private = private(reading.world, &held.instance);
        item.extend(private.map(|ip| Xml::text("privateIpAddress", ip)));
    }
    item.push(tags::set(&address.tags, at));
    item
}
