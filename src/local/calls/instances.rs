//! Calls on launched instances: describe, change, end; and their consoles.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::filter::{Field, Filters};
use super::page::Page;
use super::request::{Request, bad_value, flag, no_such};
use super::{Answer, Reading, tags};
use crate::catalog;
use crate::change::Change;
use crate::delays::Delays;
use crate::records::{Ending, Instance, InstanceState};
use crate::wire::{ApiError, Xml, blob};
use crate::world::World;

const FILTERS: &[&str] = &[
    "architecture",
    "availability-zone",
    "block-device-mapping.delete-on-termination",
    "block-device-mapping.device-name",
    "block-device-mapping.volume-id",
    "client-token",
    "image-id",
    "instance-id",
    "instance-lifecycle",
    "instance-state-code",
    "instance-state-name",
    "instance-type",
    "instance.group-id",
    "instance.group-name",
    "ip-address",
    "launch-time",
    "owner-id",
    "private-ip-address",
    "reservation-id",
    "root-device-name",
    "spot-instance-request-id",
    "subnet-id",
    "vpc-id",
];

/// Refuses unknown ids: with one of them nothing is described.
pub(super) fn all_exist(
    ids: &[&str],
    world: &World,
    at: Timestamp,
    delays: &Delays,
) -> Result<(), ApiError> {
    let unknown = ids
        .iter()
        .find(|id| world.instance(id, at, delays).is_none());
    unknown.map_or(Ok(()), |id| Err(no_such("i-", id)))
}

/// `DescribeInstances`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("InstanceId");
    let at = reading.moment(!ids.is_empty());
    let delays = &reading.inner.delays;
    let world = reading.world;
    all_exist(&ids, world, at, delays)?;
    let filters = Filters::new(request, FILTERS, true)?;
    let page = Page::new(request, "DescribeInstances", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for id in world.instances.keys() {
        let Some((instance, state)) = world.instance(id, at, delays) else {
            continue;
        };
        let wanted = ids.is_empty() || ids.contains(&id.as_str());
        if wanted
            && filters.pass(&instance.tags.at(at), |name| {
                field(world, id, instance, state, at, name)
            })?
        {
            let item = vec![
                Xml::text("reservationId", &instance.reservation),
                Xml::text("ownerId", catalog::ACCOUNT),
                Xml::node("groupSet", []),
                Xml::list(
                    "instancesSet",
                    [item(world, id, instance, state, at, delays)],
                ),
            ];
            found.push((id.clone(), item));
        }
    }
    Ok(page.answer("reservationSet", found))
}

fn field(
    world: &World,
    id: &str,
    instance: &Instance,
    state: InstanceState,
    at: Timestamp,
    name: &str,
) -> Field {
    let public = public(world, id, instance, state, at);
    let disks = || world.attached_to(id, at);
    let attachments = || disks().filter_map(|(_, volume)| volume.attachment(at));
    let group_names = || {
        let names = instance.groups.iter().filter_map(|id| world.groups.get(id));
        names.map(|group| group.name.clone())
    };
    match name {
        "architecture" => Field::one(catalog::ARCHITECTURE),
        "availability-zone" => Field::one(&instance.zone),
        "block-device-mapping.delete-on-termination" => {
            Field::many(attachments().map(|attachment| attachment.deletes(at)))
        }
        "block-device-mapping.device-name" => {
            Field::many(attachments().map(|attachment| &attachment.device))
        }
        "block-device-mapping.volume-id" => Field::many(disks().map(|(id, _)| id)),
        "client-token" => Field::maybe(instance.token.as_ref().map(|token| &token.word)),
        "image-id" => Field::one(&instance.image),
        "instance-id" => Field::one(id),
        "instance-lifecycle" => Field::maybe(instance.spot.as_ref().map(|_| "spot")),
        "instance-state-code" => Field::one(state as u16),
        "instance-state-name" => Field::one(state.name()),
        "instance-type" => Field::one(&instance.kind),
        "instance.group-id" => Field::many(&instance.groups),
        "instance.group-name" => Field::many(group_names()),
        "ip-address" => Field::maybe(public),
        "launch-time" => Field::one(stamp(instance.launched)),
        "owner-id" => Field::one(catalog::ACCOUNT),
        "private-ip-address" => Field::one(instance.machine.address),
        "reservation-id" => Field::one(&instance.reservation),
        "root-device-name" => Field::one(root_device(world, id, at)),
        "spot-instance-request-id" => Field::maybe(instance.spot.as_ref().map(|spot| &spot.id)),
        "subnet-id" => Field::many(subnet(world, instance)),
        "vpc-id" => Field::one(catalog::VPC),
        _ => Field::Unknown,
    }
}

/// The device name of its root disk; the images' name, if the disk is gone.
fn root_device(world: &World, id: &str, at: Timestamp) -> String {
    let mut disks = world.attached_to(id, at).filter(|(_, disk)| disk.root);
    let root = disks.find_map(|(_, disk)| Some(disk.attachment(at)?.device.clone()));
    root.unwrap_or_else(|| catalog::ROOT_DEVICE.to_owned())
}

/// The public address: an Elastic IP address, or while it runs the one that it was launched with.
fn public(
    world: &World,
    id: &str,
    instance: &Instance,
    state: InstanceState,
    at: Timestamp,
) -> Option<Ipv4Addr> {
    let has_one = instance.public && matches!(state, InstanceState::Running);
    let own = has_one.then_some(instance.machine.address);
    world.elastic(id, at).or(own)
}

fn subnet(world: &World, instance: &Instance) -> Option<String> {
    let mut zones = catalog::zones(&world.region).into_iter();
    zones
        .find(|zone| zone.name == instance.zone)
        .map(|zone| zone.subnet)
}

/// An instance's element in `DescribeInstances` and `RunInstances`, as EC2 writes it.
pub(super) fn item(
    world: &World,
    id: &str,
    instance: &Instance,
    state: InstanceState,
    at: Timestamp,
    delays: &Delays,
) -> Vec<Xml> {
    let mut item = vec![
        Xml::text("instanceId", id),
        Xml::text("imageId", &instance.image),
        state_node("instanceState", state),
        Xml::text("reason", reason(instance, at)),
        Xml::text("amiLaunchIndex", instance.launch_index),
        Xml::text("instanceType", &instance.kind),
        Xml::text("launchTime", stamp(instance.launched)),
        Xml::node(
            "placement",
            [
                Xml::text("availabilityZone", &instance.zone),
                Xml::text("tenancy", "default"),
            ],
        ),
        Xml::node("monitoring", [Xml::text("state", "disabled")]),
        Xml::text("architecture", catalog::ARCHITECTURE),
        Xml::text("rootDeviceType", "ebs"),
        Xml::text("rootDeviceName", root_device(world, id, at)),
        Xml::text("virtualizationType", "hvm"),
        Xml::text("hypervisor", "xen"),
        Xml::text("ebsOptimized", false),
        Xml::text("enaSupport", true),
        Xml::text("platformDetails", "Linux/UNIX"),
    ];
    if !matches!(state, InstanceState::Terminated) {
        item.push(Xml::text("privateIpAddress", instance.machine.address));
        item.extend(subnet(world, instance).map(|subnet| Xml::text("subnetId", subnet)));
        item.push(Xml::text("vpcId", catalog::VPC));
        let groups = instance.groups.iter().map(|id| {
            let name = world.groups.get(id).map_or("", |group| group.name.as_str());
            vec![Xml::text("groupId", id), Xml::text("groupName", name)]
        });
        item.push(Xml::list("groupSet", groups));
    }
    let public = public(world, id, instance, state, at);
    item.extend(public.map(|ip| Xml::text("ipAddress", ip)));
    let mut disks: Vec<_> = world
        .attached_to(id, at)
        .filter_map(|(volume, record)| Some((record.attachment(at)?, volume)))
        .collect();
    // The root disk comes first, as on EC2.
    disks.sort_by_key(|(attachment, _)| attachment.attaching);
    let disks = disks.into_iter().map(|(attachment, volume)| {
        let status = match attachment.status(at, delays.detached) {
            // In an instance's answer, a volume that is `busy` is still detaching.
            "busy" => "detaching",
            status => status,
        };
        let ebs = [
            Xml::text("volumeId", volume),
            Xml::text("status", status),
            Xml::text("attachTime", stamp(attachment.attaching)),
            Xml::text("deleteOnTermination", attachment.deletes(at)),
        ];
        vec![
            Xml::text("deviceName", &attachment.device),
            Xml::node("ebs", ebs),
        ]
    });
    item.push(Xml::list("blockDeviceMapping", disks));
    if let Some(token) = &instance.token {
        item.push(Xml::text("clientToken", &token.word));
    }
    let reserved = instance.capacity.iter();
    item.extend(reserved.map(|id| Xml::text("capacityReservationId", id)));
    if let Some(spot) = &instance.spot {
        item.push(Xml::text("instanceLifecycle", "spot"));
        item.push(Xml::text("spotInstanceRequestId", &spot.id));
    }
    if let Some((code, message)) = state_reason(instance, at) {
        item.push(Xml::node(
            "stateReason",
            [Xml::text("code", code), Xml::text("message", message)],
        ));
    }
    item.push(Xml::node(
        "metadataOptions",
        [
            Xml::text("state", "applied"),
            Xml::text(
                "httpTokens",
                if instance.tokens_required {
                    "required"
                } else {
                    "optional"
                },
            ),
            Xml::text("httpPutResponseHopLimit", instance.hop_limit),
            Xml::text("httpEndpoint", "enabled"),
        ],
    ));
    item.extend(instance.profile.as_ref().map(|arn| {
        let id = hex::encode_upper(Sha256::digest(arn));
        let id = format!("AIPA{}", &id[..17]);
        Xml::node(
            "iamInstanceProfile",
            [Xml::text("arn", arn), Xml::text("id", id)],
        )
    }));
    item.push(tags::set(&instance.tags, at));
    item
}

pub(super) fn state_node(name: &'static str, state: InstanceState) -> Xml {
    Xml::node(
        name,
        [
            Xml::text("code", state as u16),
            Xml::text("name", state.name()),
        ],
    )
}

/// `reason`, which AWS leaves empty if the instance ended itself.
fn reason(instance: &Instance, at: Timestamp) -> String {
    let Some(ending) = instance.ending(at) else {
        return String::new();
    };
    let who = match ending {
        ending if instance.is_interrupted(ending) => "Service",
        ending if ending.by_itself => return String::new(),
        _ => "User",
    };
    let when = ending.since.strftime("%Y-%m-%d %H:%M:%S GMT");
    format!("{who} initiated ({when})")
}

fn state_reason(instance: &Instance, at: Timestamp) -> Option<(&'static str, &'static str)> {
    let ending = instance.ending(at)?;
    Some(if instance.is_interrupted(ending) {
        (
            "Server.SpotInstanceTermination",
            "Server.SpotInstanceTermination: Spot instance termination",
        )
    } else if instance.spot.as_ref().is_some_and(|spot| spot.locked) {
        (
            "Client.InternalError",
            "Client.InternalError: Client error on launch",
        )
    } else if ending.failed {
        (
            "Server.InternalError",
            "Server.InternalError: Internal error on launch",
        )
    } else if ending.by_itself {
        (
            "Client.InstanceInitiatedShutdown",
            "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
        )
    } else {
        (
            "Client.UserInitiatedShutdown",
            "Client.UserInitiatedShutdown: User initiated shutdown",
        )
    })
}

/// A moment as AWS writes it.
pub(super) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// `TerminateInstances`. All ids must exist, else none is terminated; ending twice is success.
pub(super) fn terminate(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let ids = request.list("InstanceId");
    let delays = change.local.delays().clone();
    let now = change.now;
    let mut states = BTreeMap::new();
    for id in ids {
        let found = change.world.instance(id, now, &delays);
        let (_, state) = found.ok_or_else(|| no_such("i-", id))?;
        states.insert(id, state);
    }
    let mut items = Vec::new();
    for (id, before) in states {
        let lives = change
            .world
            .instances
            .get(id)
            .is_some_and(|instance| instance.termination.is_none());
        if lives {
            if !matches!(before, InstanceState::Stopped) {
                change.power_off(id)?;
            }
            change.world.begin_end(id, Ending::by_call(now));
        }
        let after = change
            .world
            .instance(id, now, &delays)
            .map_or(before, |(_, state)| state);
        items.push(vec![
            Xml::text("instanceId", id),
            state_node("currentState", after),
            state_node("previousState", before),
        ]);
    }
    Ok(vec![Xml::list("instancesSet", items)])
}

/// `RebootInstances`: all must run, else none is rebooted.
pub(super) fn reboot(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let ids = request.list("InstanceId");
    let delays = change.local.delays().clone();
    for id in &ids {
        let found = change.world.instance(id, change.now, &delays);
        let (_, state) = found.ok_or_else(|| no_such("i-", id))?;
        if !matches!(state, InstanceState::Running) {
            return Err(ApiError::client(
                "IncorrectState",
                format!("The instance '{id}' is not in the 'running' state."),
            ));
        }
    }
    for id in ids {
        change.reboot(id)?;
    }
    Ok(vec![Xml::text("return", true)])
}

/// `ModifyInstanceAttribute`: one attribute a call, as EC2 requires.
pub(super) fn modify(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("InstanceId")?;
    let now = change.now;
    let delays = change.local.delays().clone();
    let found = change.world.instance(id, now, &delays);
    let (_, state) = found.ok_or_else(|| no_such("i-", id))?;
    if matches!(
        state,
        InstanceState::ShuttingDown | InstanceState::Terminated
    ) {
        return Err(ApiError::client(
            "IncorrectInstanceState",
            format!(
                "Instance '{id}' is in the '{}' state, its attributes cannot be changed",
                state.name()
            ),
        ));
    }
    let mappings = request.params().structs("BlockDeviceMapping");
    let behaviour = request.text("InstanceInitiatedShutdownBehavior.Value");
    let groups = request.list("GroupId");
    let asked = usize::from(!mappings.is_empty())
        + usize::from(behaviour.is_some())
        + usize::from(!groups.is_empty());
    if asked != 1 {
        return Err(if asked == 0 {
            ApiError::client("InvalidParameterCombination", "No attributes specified.")
        } else {
            ApiError::client(
                "InvalidParameterCombination",
                "Fields for multiple attribute types specified",
            )
        });
    }
    for mapping in &mappings {
        let device = mapping.get("DeviceName").unwrap_or_default();
        let ebs = mapping.below("Ebs");
        let volume = change.world.volumes.values_mut().find_map(|volume| {
            volume
                .attachment_mut(now)
                .filter(|attachment| attachment.instance == id && attachment.device == device)
        });
        let attachment = volume.ok_or_else(|| {
            ApiError::client(
                "InvalidInstanceAttributeValue",
                format!("No device is currently mapped at {device}"),
            )
        })?;
        if let Some(deletes) = flag(&ebs, "DeleteOnTermination")? {
            attachment.delete_on_termination.push((now, deletes));
        }
    }
    let terminates = match behaviour {
        None => None,
        Some("terminate") => Some(true),
        Some("stop") => Some(false),
        Some(value) => return Err(bad_value(value, "instanceInitiatedShutdownBehavior")),
    };
    for group in &groups {
        if !change.world.groups.contains_key(*group) {
            return Err(no_such("sg-", group));
        }
    }
    change.guarded(|world| {
        let Some(instance) = world.instances.get_mut(id) else {
            return;
        };
        instance.terminates_itself = terminates.unwrap_or(instance.terminates_itself);
        if !groups.is_empty() {
            instance.groups = groups.iter().map(|id| (*id).to_owned()).collect();
        }
    })?;
    Ok(vec![Xml::text("return", true)])
}

/// `GetConsoleOutput`; here always the latest.
pub(super) fn console(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let id = request.required("InstanceId")?;
    request.flag("Latest")?;
    if reading
        .world
        .instance(id, reading.reads, &reading.inner.delays)
        .is_none()
    {
        return Err(no_such("i-", id));
    }
    let output = reading.inner.plane.console(id)?;
    Ok(vec![
        Xml::text("instanceId", id),
        Xml::text("timestamp", stamp(reading.now)),
        Xml::text("output", blob::encode(&output)),
    ])
}
