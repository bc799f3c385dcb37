//! Security groups: their records, and with these what reaches instances.

mod rules;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::network::no_default_vpc;
use super::page::Page;
use super::request::{Request, bad_value, missing, new_id, no_such};
use super::{Answer, Reading, tags};
use crate::catalog;
use crate::change::Change;
use crate::records::{Group, InstanceState, Peer, Rule, Tags};
use crate::wire::{ApiError, Xml};
use crate::world::World;

/// `CreateSecurityGroup`, in the default VPC.
pub(super) fn create(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let name = request.required("GroupName")?;
    let description = request.required("GroupDescription")?;
    if request.text("VpcId").is_none() && !change.local.has_default_vpc() {
        return Err(no_default_vpc());
    }
    if let Some(vpc) = request.text("VpcId").filter(|vpc| *vpc != catalog::VPC) {
        return Err(no_such("vpc-", vpc));
    }
    if name.starts_with("sg-") || name.chars().count() > 255 {
        return Err(bad_value(name, "groupName"));
    }
    if change.world.groups.values().any(|group| group.name == name) {
        return Err(ApiError::client(
            "InvalidGroup.Duplicate",
            format!(
                "The security group '{name}' already exists for VPC '{}'",
                catalog::VPC
            ),
        ));
    }
    let mut specified = request.tag_specifications(&["security-group"])?;
    let now = change.now;
    let id = new_id("sg-")?;
    let group = Group {
        name: name.to_owned(),
        description: description.to_owned(),
        created: now,
        ingress: Vec::new(),
        egress: vec![Rule::everything(
            new_id("sgr-")?,
            Peer::Cidr("0.0.0.0/0".to_owned()),
        )],
        tags: Tags::new(now, &specified.remove("security-group").unwrap_or_default()),
    };
    let answer = vec![
        Xml::text("return", true),
        Xml::text("groupId", &id),
        tags::set(&group.tags, now),
    ];
    change.world.groups.insert(id, group);
    Ok(answer)
}

/// The id of the group that `GroupId` or `GroupName` means.
fn group_id(request: Request<'_>, world: &World) -> Result<String, ApiError> {
    let (id, name) = (request.text("GroupId"), request.text("GroupName"));
    if id.or(name).is_none() {
        return Err(missing("groupName or groupId"));
    }
    group_called(id, name, world)
}

/// The id of the group that has this `id`, or this `name` in the default VPC.
fn group_called(id: Option<&str>, name: Option<&str>, world: &World) -> Result<String, ApiError> {
    if let Some(id) = id {
        let is_known = world.groups.contains_key(id);
        return is_known
            .then(|| id.to_owned())
            .ok_or_else(|| no_such("sg-", id));
    }
    let name = name.unwrap_or_default();
    let found = world.groups.iter().find(|(_, group)| group.name == name);
    found
        .map(|(id, _)| id.clone())
        .ok_or_else(|| unknown_name(name))
}

/// A copy of a group's record, to be changed.
fn record(id: &str, world: &World) -> Result<Group, ApiError> {
    let group = world.groups.get(id);
    group.cloned().ok_or_else(|| no_such("sg-", id))
}

/// The error for a group's name that the default VPC does not have.
fn unknown_name(name: &str) -> ApiError {
    ApiError::client(
        "InvalidGroup.NotFound",
        format!(
            "The security group '{name}' does not exist in default VPC '{}'",
            catalog::VPC
        ),
    )
}

/// `DeleteSecurityGroup`: one that no instance uses, and no other group's rule names.
pub(super) fn delete(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = group_id(request, &change.world)?;
    if id == catalog::DEFAULT_GROUP {
        return Err(ApiError::client(
            "CannotDelete",
            format!("the specified group: \"{id}\" name: \"default\" cannot be deleted by a user"),
        ));
    }
    let delays = change.local.delays();
    let used = change.world.instances.keys().any(|instance| {
        change
            .world
            .instance(instance, change.now, delays)
            .is_some_and(|(instance, state)| {
                !matches!(state, InstanceState::Terminated) && instance.groups.contains(&id)
            })
    });
    let mut others = change
        .world
        .groups
        .iter()
        .filter(|(other, _)| **other != id);
    let is_named = others.any(|(_, group)| {
        let mut rules = group.ingress.iter().chain(&group.egress);
        rules.any(|rule| rule.peer.group() == Some(&id))
    });
    let mut targets = change.world.targets.values();
    let guards = targets.any(|it| it.state(change.now).is_some() && it.groups.contains(&id));
    if used || is_named || guards {
        return Err(ApiError::client(
            "DependencyViolation",
            format!("resource {id} has a dependent object"),
        ));
    }
    change.world.groups.remove(&id);
    Ok(vec![Xml::text("return", true), Xml::text("groupId", id)])
}

/// `AuthorizeSecurityGroupIngress`: all rules or none.
pub(super) fn authorize_ingress(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = group_id(request, &change.world)?;
    let mut rules = rules::rules(request, &change.world)?;
    if rules.is_empty() {
        return Err(missing("ipPermissions"));
    }
    let mut group = record(&id, &change.world)?;
    for rule in &mut rules {
        if group.ingress.iter().any(|known| known.allows_as(rule)) {
            return Err(rules::duplicate(rule));
        }
        rule.id = new_id("sgr-")?;
        group.ingress.push(rule.clone());
    }
    change.set_group(&id, &group)?;
    let items = rules.iter().map(|rule| rules::item(&id, rule));
    Ok(vec![
        Xml::text("return", true),
        Xml::list("securityGroupRuleSet", items),
    ])
}

/// `UpdateSecurityGroupRuleDescriptionsIngress`: of existing rules, all or none.
pub(super) fn describe_ingress(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = group_id(request, &change.world)?;
    let rules = rules::rules(request, &change.world)?;
    if rules.is_empty() {
        return Err(missing("ipPermissions"));
    }
    let Some(group) = change.world.groups.get_mut(&id) else {
        return Err(no_such("sg-", &id));
    };
    for rule in rules {
        let known = group
            .ingress
            .iter_mut()
            .find(|known| known.allows_as(&rule));
        let known = known.ok_or_else(|| {
            ApiError::client(
                "InvalidPermission.NotFound",
                "The specified rule does not exist in this security group.",
            )
        })?;
        known.description = rule.description;
    }
    Ok(vec![Xml::text("return", true)])
}

/// `RevokeSecurityGroupIngress`: by the rules' ids, or by protocol, ports and range.
pub(super) fn revoke_ingress(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = group_id(request, &change.world)?;
    let rules = rules::rules(request, &change.world)?;
    let ids = request.list("SecurityGroupRuleId");
    if rules.is_empty() && ids.is_empty() {
        return Err(missing("ipPermissions"));
    }
    let mut group = record(&id, &change.world)?;
    if let Some(unknown) = ids
        .iter()
        .find(|id| !group.ingress.iter().any(|it| it.id == **id))
    {
        return Err(ApiError::client(
            "InvalidSecurityGroupRuleId.NotFound",
            format!("The security group rule ID '{unknown}' does not exist"),
        ));
    }
    if rules
        .iter()
        .any(|rule| !group.ingress.iter().any(|known| known.allows_as(rule)))
    {
        return Err(ApiError::client(
            "InvalidPermission.NotFound",
            "The specified rule does not exist in this security group.",
        ));
    }
    group.ingress.retain(|known| {
        !ids.contains(&known.id.as_str()) && !rules.iter().any(|rule| known.allows_as(rule))
    });
    change.set_group(&id, &group)?;
    Ok(vec![Xml::text("return", true)])
}

/// `DescribeSecurityGroups`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let (ids, names) = (request.list("GroupId"), request.list("GroupName"));
    let by_id = !ids.is_empty() || !names.is_empty();
    let at = reading.moment(by_id);
    let groups = || {
        reading
            .world
            .groups
            .iter()
            .filter(|(_, group)| group.created <= at)
    };
    if let Some(id) = ids
        .iter()
        .find(|id| !groups().any(|(known, _)| known == *id))
    {
        return Err(no_such("sg-", id));
    }
    if let Some(name) = names
        .iter()
        .find(|name| !groups().any(|(_, group)| group.name == **name))
    {
        return Err(unknown_name(name));
    }
    let filters = Filters::new(
        request,
        &[
            "description",
            "group-id",
            "group-name",
            "ip-permission.cidr",
            "ip-permission.from-port",
            "ip-permission.group-id",
            "ip-permission.group-name",
            "ip-permission.ipv6-cidr",
            "ip-permission.protocol",
            "ip-permission.to-port",
            "ip-permission.user-id",
            "owner-id",
            "vpc-id",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeSecurityGroups", 5, by_id)?;
    let mut found = Vec::new();
    for (id, group) in groups() {
        let wanted = !by_id || ids.contains(&id.as_str()) || names.contains(&group.name.as_str());
        if wanted
            && filters.pass(&group.tags.at(at), |name| {
                field(reading.world, id, group, name)
            })?
        {
            found.push((id.clone(), item(id, group, at)));
        }
    }
    Ok(page.answer("securityGroupInfo", found))
}

fn field(world: &World, id: &str, group: &Group, name: &str) -> Field {
    let ingress = || group.ingress.iter();
    let named = || ingress().filter_map(|rule| rule.peer.group());
    match name {
        "description" => Field::one(&group.description),
        "group-id" => Field::one(id),
        "group-name" => Field::one(&group.name),
        "ip-permission.cidr" => Field::many(ingress().filter_map(|rule| rule.peer.ipv4())),
        "ip-permission.ipv6-cidr" => Field::many(ingress().filter_map(|rule| rule.peer.ipv6())),
        "ip-permission.group-id" => Field::many(named()),
        "ip-permission.group-name" => {
            let groups = named().filter_map(|id| world.groups.get(id));
            Field::many(groups.map(|group| &group.name))
        }
        "ip-permission.user-id" => Field::many(named().map(|_| catalog::ACCOUNT)),
        "ip-permission.from-port" => Field::many(ingress().filter_map(|rule| rule.from)),
        "ip-permission.protocol" => Field::many(ingress().map(|rule| &rule.protocol)),
        "ip-permission.to-port" => Field::many(ingress().filter_map(|rule| rule.to)),
        "owner-id" => Field::one(catalog::ACCOUNT),
        "vpc-id" => Field::one(catalog::VPC),
        _ => Field::Unknown,
    }
}

fn item(id: &str, group: &Group, at: Timestamp) -> Vec<Xml> {
    vec![
        Xml::text("ownerId", catalog::ACCOUNT),
        Xml::text("groupId", id),
        Xml::text("groupName", &group.name),
        Xml::text("groupDescription", &group.description),
        Xml::text("vpcId", catalog::VPC),
        rules::permissions("ipPermissions", &group.ingress),
        rules::permissions("ipPermissionsEgress", &group.egress),
        tags::set(&group.tags, at),
    ]
}
