//! Elastic File System: file systems, and mount targets in the VPC's subnets.
//!
//! Sources: EFS API reference; EFS user guide, *Quotas*. Parameters are those of the JSON documents,
//! flattened; answers are documents.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::{self, Request, new_id};
use super::{Answer, Reading};
use crate::Local;
use crate::catalog;
use crate::change::Change;
use crate::records::{FileSystem, Peer, Rule, Tags, Target};
use crate::wire::{ApiError, Params, Xml};
use crate::world::{Intent, World};

/// The most items of a page.
const PAGE: usize = 100;

/// The most groups of a mount target.
const GROUPS: usize = 5;

/// NFS's port.
const NFS: i32 = 2049;

/// The least that a file system is metered at (EFS user guide, *Metering*).
const EMPTY: u64 = 6144;

const AFTER_DAYS: [&str; 9] = [
    "AFTER_1_DAY",
    "AFTER_7_DAYS",
    "AFTER_14_DAYS",
    "AFTER_30_DAYS",
    "AFTER_60_DAYS",
    "AFTER_90_DAYS",
    "AFTER_180_DAYS",
    "AFTER_270_DAYS",
    "AFTER_365_DAYS",
];

/// `CreateFileSystem`.
pub(super) fn create(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let token = request.required("CreationToken")?;
    if token.chars().count() > 64 {
        return Err(bad(format!("The token {token} is too long.")));
    }
    let performance = one_of(request, "PerformanceMode", &["generalPurpose", "maxIO"])?;
    let throughput = one_of(request, "ThroughputMode", &["bursting", "elastic"])?;
    let encrypted = request.flag("Encrypted")?.unwrap_or(false);
    let tags = request::tags(request.params())?;
    let is_known = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.:/=+-@".contains(c);
    if !tags.values().all(|value| value.chars().all(is_known)) {
        return Err(bad(
            "A tag's value has a character that none has.".to_owned()
        ));
    }
    let now = change.now;
    let mut known = change.world.file_systems.iter();
    if let Some((id, _)) = known.find(|(_, it)| it.token == token && it.state(now).is_some()) {
        return Err(ApiError {
            status: 409,
            code: "FileSystemAlreadyExists".to_owned(),
            message: format!("File system '{id}' already exists with creation token '{token}'"),
        });
    }
    let id = new_id("fs-")?;
    let made = FileSystem {
        token: token.to_owned(),
        created: now,
        available: now + change.local.delays().share,
        deleted: None,
        encrypted,
        performance: performance.to_owned(),
        throughput: throughput.to_owned(),
        policies: Vec::new(),
        tags: Tags::new(now, &tags),
    };
    let answer = file_system(&id, &made, now, &change.world);
    change.world.file_systems.insert(id, made);
    document(&answer)
}

/// `DescribeFileSystems`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let (id, token) = (request.text("FileSystemId"), request.text("CreationToken"));
    let at = reading.moment(id.is_some());
    let known = reading.world.file_systems.iter();
    let found = known.filter(|(it, of)| {
        of.state(at).is_some()
            && id.is_none_or(|id| *it == id)
            && token.is_none_or(|token| of.token == token)
    });
    let found: Vec<_> = found.collect();
    if let (Some(id), true) = (id, found.is_empty()) {
        return Err(no_file_system(id));
    }
    let found = found.into_iter();
    let found = found.map(|(id, it)| (id.as_str(), file_system(id, it, at, reading.world)));
    page(request, "FileSystems", found)
}

/// `DeleteFileSystem`: of one without mount targets.
pub(super) fn delete(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("FileSystemId")?;
    let now = change.now;
    standing(&change.world, id, now)?;
    if targets_of(&change.world, id, now).next().is_some() {
        return Err(ApiError {
            status: 409,
            code: "FileSystemInUse".to_owned(),
            message: format!("The file system {id} has mount targets."),
        });
    }
    let gone = now + change.local.delays().deleted;
    if let Some(it) = change.world.file_systems.get_mut(id) {
        it.deleted.get_or_insert(gone);
    }
    change.effect(Intent::Sweep, |plane| plane.delete_file_system(id))?;
    Ok(Vec::new())
}

/// `PutLifecycleConfiguration`: replaces the policies, of which each has one transition.
pub(super) fn put_policies(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("FileSystemId")?;
    let now = change.now;
    available(&change.world, id, now)?;
    let read = |of: &Params| {
        let given: BTreeMap<String, String> = of
            .names()
            .map(|name| (name.to_owned(), of.get(name).unwrap_or_default().to_owned()))
            .collect();
        let is_known = given.iter().all(|(name, value)| match name.as_str() {
            "TransitionToIA" | "TransitionToArchive" => AFTER_DAYS.contains(&value.as_str()),
            "TransitionToPrimaryStorageClass" => value == "AFTER_1_ACCESS",
            _ => false,
        });
        if given.len() == 1 && is_known {
            return Ok(given);
        }
        Err(bad("A lifecycle policy has one transition.".to_owned()))
    };
    let given = request.params().structs("LifecyclePolicies");
    let policies: Vec<_> = given.iter().map(read).collect::<Result<_, _>>()?;
    if let Some(it) = change.world.file_systems.get_mut(id) {
        it.policies.clone_from(&policies);
    }
    document(&json!({"LifecyclePolicies": policies}))
}

/// `DescribeLifecycleConfiguration`.
pub(super) fn policies(reading: &Reading<'_>) -> Answer {
    let id = reading.request.required("FileSystemId")?;
    let known = reading.world.file_systems.get(id);
    let known = known.filter(|it| it.state(reading.now).is_some());
    let known = known.ok_or_else(|| no_file_system(id))?;
    document(&json!({"LifecyclePolicies": known.policies}))
}

/// `CreateMountTarget`.
pub(super) fn create_target(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("FileSystemId")?;
    let subnet = request.required("SubnetId")?;
    let now = change.now;
    available(&change.world, id, now)?;
    let zones = catalog::zones(change.local.region());
    let zone = zones.iter().find(|zone| zone.subnet == subnet);
    let zone = zone.ok_or_else(|| refused(400, "SubnetNotFound", "subnet", subnet))?;
    let mut groups: Vec<String> = request
        .list("SecurityGroups")
        .into_iter()
        .map(str::to_owned)
        .collect();
    check_groups(&change.world, &groups)?;
    if groups.is_empty() {
        groups.push(catalog::DEFAULT_GROUP.to_owned());
    }
    if targets_of(&change.world, id, now).any(|(_, target)| target.subnet == subnet) {
        return Err(ApiError {
            status: 409,
            code: "MountTargetConflict".to_owned(),
            message: "mount target already exists in this AZ".to_owned(),
        });
    }
    let target = Target {
        file_system: id.to_owned(),
        subnet: subnet.to_owned(),
        groups,
        address: free_address(&change.world, &zone.cidr, now)?,
        created: now,
        available: now + change.local.delays().target,
        deleted: None,
    };
    let made = new_id("fsmt-")?;
    let answer = mount_target(&made, &target, now, change.local.region());
    change.world.targets.insert(made, target);
    document(&answer)
}

/// `DescribeMountTargets`: of a file system, or one.
pub(super) fn describe_targets(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let (of, id) = (request.text("FileSystemId"), request.text("MountTargetId"));
    let at = reading.moment(true);
    match (of, id) {
        (Some(of), None) => {
            let known = reading.world.file_systems.get(of);
            known
                .filter(|it| it.state(at).is_some())
                .ok_or_else(|| no_file_system(of))?;
        }
        (None, Some(id)) => {
            let known = reading.world.targets.get(id);
            known
                .filter(|it| it.state(at).is_some())
                .ok_or_else(|| no_target(id))?;
        }
        _ => return Err(bad("Exactly one of them is to be named.".to_owned())),
    }
    let region = &reading.inner.region;
    let found = reading.world.targets.iter().filter(|(it, target)| {
        target.state(at).is_some()
            && of.is_none_or(|of| target.file_system == of)
            && id.is_none_or(|id| *it == id)
    });
    let found = found.map(|(id, it)| (id.as_str(), mount_target(id, it, at, region)));
    page(request, "MountTargets", found)
}

/// `DescribeMountTargetSecurityGroups`.
pub(super) fn target_groups(reading: &Reading<'_>) -> Answer {
    let id = reading.request.required("MountTargetId")?;
    let target = reading.world.targets.get(id);
    let target = target.filter(|it| it.state(reading.now).is_some());
    let target = target.ok_or_else(|| no_target(id))?;
    document(&json!({"SecurityGroups": target.groups}))
}

/// `DeleteMountTarget`.
pub(super) fn delete_target(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("MountTargetId")?;
    let gone = change.now + change.local.delays().target;
    let target = change.world.targets.get_mut(id);
    let target = target.filter(|it| it.state(change.now).is_some());
    let target = target.ok_or_else(|| no_target(id))?;
    target.deleted.get_or_insert(gone);
    Ok(Vec::new())
}

/// The file system that this instance reaches at an address; none where no mount target is there, or none of
/// its groups lets the instance in.
pub(crate) fn reached(local: &Local, instance: &str, address: Ipv4Addr) -> Option<String> {
    let world = local.look().ok()?;
    let now = world.now(local.clock().now());
    let from = world.instances.get(instance)?;
    let mut targets = world.targets.values();
    let target = targets.find(|it| it.address == address && it.state(now) == Some("available"))?;
    let groups = target.groups.iter().filter_map(|id| world.groups.get(id));
    let mut rules = groups.flat_map(|group| &group.ingress);
    let lets_in = |rule: &Rule| {
        let is_nfs = match rule.protocol.as_str() {
            "-1" => true,
            "tcp" => rule
                .from
                .zip(rule.to)
                .is_none_or(|(from, to)| (from..=to).contains(&NFS)),
            _ => false,
        };
        is_nfs
            && match &rule.peer {
                Peer::Group(group) => from.groups.contains(group),
                Peer::Cidr(range) => [catalog::VPC_CIDR, "0.0.0.0/0"].contains(&range.as_str()),
            }
    };
    rules.any(lets_in).then(|| target.file_system.clone())
}

/// The mount targets of a file system that are there.
fn targets_of<'a>(
    world: &'a World,
    id: &'a str,
    at: Timestamp,
) -> impl Iterator<Item = (&'a String, &'a Target)> {
    let targets = world.targets.iter();
    targets.filter(move |(_, it)| it.file_system == id && it.state(at).is_some())
}

/// Fails unless the file system is there.
fn standing<'a>(world: &'a World, id: &str, at: Timestamp) -> Result<&'a str, ApiError> {
    let known = world.file_systems.get(id);
    known
        .and_then(|it| it.state(at))
        .ok_or_else(|| no_file_system(id))
}

/// Fails unless the file system can be changed.
fn available(world: &World, id: &str, at: Timestamp) -> Result<(), ApiError> {
    match standing(world, id, at)? {
        "available" => Ok(()),
        state => Err(ApiError {
            status: 409,
            code: "IncorrectFileSystemLifeCycleState".to_owned(),
            message: format!("The file system {id} is {state}."),
        }),
    }
}

fn check_groups(world: &World, groups: &[String]) -> Result<(), ApiError> {
    if groups.len() > GROUPS {
        return Err(ApiError::client(
            "SecurityGroupLimitExceeded",
            "The maximum number of security groups per interface has been reached.",
        ));
    }
    match groups.iter().find(|it| !world.groups.contains_key(*it)) {
        Some(group) => Err(refused(400, "SecurityGroupNotFound", "group", group)),
        None => Ok(()),
    }
}

/// An address from the end of the subnet that no mount target has: instances have theirs from its beginning.
fn free_address(world: &World, subnet: &str, at: Timestamp) -> Result<Ipv4Addr, ApiError> {
    let full = || ApiError {
        status: 409,
        code: "NoFreeAddressesInSubnet".to_owned(),
        message: "The subnet has no free address.".to_owned(),
    };
    let (base, bits) = subnet.split_once('/').ok_or_else(full)?;
    let base: Ipv4Addr = base.parse().map_err(|_| full())?;
    let bits: u32 = bits.parse().map_err(|_| full())?;
    let last = base.to_bits() | u32::MAX.checked_shr(bits).unwrap_or_default();
    let there = world.targets.values().filter(|it| it.state(at).is_some());
    let taken: BTreeSet<Ipv4Addr> = there.map(|it| it.address).collect();
    // The last address of a subnet is AWS's own (VPC user guide, *Subnet CIDR blocks*).
    let mut free = (1..=u32::from(u8::MAX)).map(|back| Ipv4Addr::from_bits(last - back));
    free.find(|it| !taken.contains(it)).ok_or_else(full)
}

/// A parameter of these values, of which the first is the default.
fn one_of<'a>(request: Request<'a>, name: &str, known: &[&'a str]) -> Result<&'a str, ApiError> {
    let value = request.text(name).unwrap_or(known[0]);
    if known.contains(&value) {
        return Ok(value);
    }
    Err(bad(format!("{value} is no {name} that is known here.")))
}

fn file_system(id: &str, it: &FileSystem, at: Timestamp, world: &World) -> Value {
    let (region, account) = (&world.region, catalog::ACCOUNT);
    let tags = it.tags.at(at);
    let name = tags.get("Name").copied().unwrap_or_default();
    let tags: Vec<Value> = tags
        .iter()
        .map(|(key, value)| json!({"Key": key, "Value": value}))
        .collect();
    json!({
        "OwnerId": account,
        "CreationToken": it.token,
        "FileSystemId": id,
        "FileSystemArn": format!("arn:aws:elasticfilesystem:{region}:{account}:file-system/{id}"),
        "CreationTime": it.created.as_second(),
        "LifeCycleState": it.state(at).unwrap_or("deleted"),
        "Name": name,
        "NumberOfMountTargets": targets_of(world, id, at).count(),
        "SizeInBytes": {"Value": EMPTY, "ValueInIA": 0, "ValueInStandard": EMPTY},
        "PerformanceMode": it.performance,
        "Encrypted": it.encrypted,
        "ThroughputMode": it.throughput,
        "Tags": tags,
    })
}

fn mount_target(id: &str, it: &Target, at: Timestamp, region: &str) -> Value {
    let zones = catalog::zones(region);
    let zone = zones.iter().find(|zone| zone.subnet == it.subnet);
    json!({
        "OwnerId": catalog::ACCOUNT,
        "MountTargetId": id,
        "FileSystemId": it.file_system,
        "SubnetId": it.subnet,
        "LifeCycleState": it.state(at).unwrap_or("deleted"),
        "IpAddress": it.address,
        "AvailabilityZoneId": zone.map(|zone| &zone.id),
        "AvailabilityZoneName": zone.map(|zone| &zone.name),
        "VpcId": catalog::VPC,
    })
}

/// A page of these, by id: those after the marker.
fn page<'a>(
    request: Request<'_>,
    name: &str,
    all: impl Iterator<Item = (&'a str, Value)>,
) -> Answer {
    let most = request.number("MaxItems")?;
    let most = most.map_or(PAGE, |most| (most as usize).clamp(1, PAGE));
    let after = request.text("Marker").unwrap_or_default();
    let mut rest = all.filter(|(id, _)| *id > after);
    let page: Vec<(&str, Value)> = rest.by_ref().take(most).collect();
    let next = page.last().map(|(id, _)| *id);
    let next = next.filter(|_| rest.next().is_some());
    let items: Vec<Value> = page.iter().map(|(_, item)| item.clone()).collect();
    document(&json!({name: items, "NextMarker": next}))
}

/// An answer of this service is a document as it is.
#[expect(clippy::unnecessary_wraps, reason = "the end of each call")]
fn document(body: &Value) -> Answer {
    Ok(vec![Xml::data("Body", body.to_string().into())])
}

fn bad(message: String) -> ApiError {
    ApiError::client("BadRequest", message)
}

fn no_file_system(id: &str) -> ApiError {
    refused(404, "FileSystemNotFound", "file system", id)
}

fn no_target(id: &str) -> ApiError {
    refused(404, "MountTargetNotFound", "mount target", id)
}

fn refused(status: u16, code: &str, what: &str, id: &str) -> ApiError {
    ApiError {
        status,
        code: code.to_owned(),
        message: format!("The {what} '{id}' does not exist."),
    }
}
