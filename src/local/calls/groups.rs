//! Security groups: records only, which drop no packets.

use std::net::IpAddr;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::network::no_default_vpc;
use super::page::Page;
use super::request::{Request, bad_value, missing, new_id, no_such};
use super::{Answer, Reading, tags};
use crate::catalog;
use crate::change::Change;
use crate::records::{Group, InstanceState, Rule, Tags};
use crate::wire::{ApiError, Params, Xml};
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
        egress: vec![Rule {
            id: new_id("sgr-")?,
            protocol: "-1".to_owned(),
            from: None,
            to: None,
            cidr: "0.0.0.0/0".to_owned(),
            description: None,
        }],
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
    match (request.text("GroupId"), request.text("GroupName")) {
        (Some(id), _) if world.groups.contains_key(id) => Ok(id.to_owned()),
        (Some(id), _) => Err(no_such("sg-", id)),
        (None, Some(name)) => {
            let found = world.groups.iter().find(|(_, group)| group.name == name);
            found.map(|(id, _)| id.clone()).ok_or_else(|| {
                ApiError::client(
                    "InvalidGroup.NotFound",
                    format!(
                        "The security group '{name}' does not exist in default VPC '{}'",
                        catalog::VPC
                    ),
                )
            })
        }
        (None, None) => Err(missing("groupName or groupId")),
    }
}

/// `DeleteSecurityGroup`: one that no instance uses.
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
    if used {
        return Err(ApiError::client(
            "DependencyViolation",
            format!("resource {id} has a dependent object"),
        ));
    }
    change.world.groups.remove(&id);
    Ok(vec![Xml::text("return", true), Xml::text("groupId", id)])
}

/// The rules that a call describes, without ids.
fn rules(request: Request<'_>) -> Result<Vec<Rule>, ApiError> {
    let mut permissions = request.params().structs("IpPermissions");
    let mut rules = Vec::new();
    if let Some(cidr) = request.text("CidrIp") {
        rules.push(rule(request.params(), cidr, None)?);
        permissions.clear();
    }
    for permission in permissions {
        let before = rules.len();
        for (ranges, name) in [("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6")] {
            for range in permission.structs(ranges) {
                let cidr = range.get(name).ok_or_else(|| missing(name))?;
                let description = range.get("Description").map(str::to_owned);
                rules.push(rule(&permission, cidr, description)?);
            }
        }
        if rules.len() == before {
            return Err(missing("IpPermissions.IpRanges"));
        }
    }
    Ok(rules)
}

fn rule(params: &Params, cidr: &str, description: Option<String>) -> Result<Rule, ApiError> {
    let protocol = match params
        .get("IpProtocol")
        .ok_or_else(|| missing("ipProtocol"))?
    {
        "6" => "tcp",
        "17" => "udp",
        "1" => "icmp",
        known @ ("tcp" | "udp" | "icmp" | "-1") => known,
        other => {
            return Err(ApiError::client(
                "InvalidPermission.Malformed",
                format!("Unsupported IP protocol \"{other}\""),
            ));
        }
    };
    let port = |name: &str| -> Result<Option<i32>, ApiError> {
        let value = params.get(name);
        value
            .map(|value| value.parse().map_err(|_| bad_value(value, name)))
            .transpose()
    };
    let (from, to) = (port("FromPort")?, port("ToPort")?);
    let (from, to) = match (protocol, from, to) {
        ("-1", ..) => (None, None),
        ("icmp", from, to) => (from.or(Some(-1)), to.or(Some(-1))),
        (_, Some(from), Some(to)) if 0 <= from && from <= to && to <= 65535 => {
            (Some(from), Some(to))
        }
        _ => {
            return Err(ApiError::client(
                "InvalidParameterValue",
                "Invalid value for portRange. Must specify both from and to ports with TCP/UDP.",
            ));
        }
    };
    let well_formed = cidr.split_once('/').is_some_and(|(address, bits)| {
        let widest = match address.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= widest)
    });
    let says = |text: &String| {
        text.len() <= 255
            && text.chars().all(|letter| {
                letter.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(letter)
            })
    };
    if description.as_ref().is_some_and(|text| !says(text)) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            "Invalid rule description. Valid descriptions are strings less than 256 characters \
             from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*",
        ));
    }
    if !well_formed {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!("CIDR block {cidr} is malformed"),
        ));
    }
    Ok(Rule {
        id: String::new(),
        protocol: protocol.to_owned(),
        from,
        to,
        cidr: cidr.to_owned(),
        description,
    })
}

fn is_ipv6(rule: &Rule) -> bool {
    rule.cidr.contains(':')
}

fn is_same_rule(one: &Rule, other: &Rule) -> bool {
    (&one.protocol, one.from, one.to, &one.cidr)
        == (&other.protocol, other.from, other.to, &other.cidr)
}

/// `AuthorizeSecurityGroupIngress`: all rules or none.
pub(super) fn authorize_ingress(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = group_id(request, &change.world)?;
    let mut rules = rules(request)?;
    if rules.is_empty() {
        return Err(missing("ipPermissions"));
    }
    let Some(group) = change.world.groups.get_mut(&id) else {
        return Err(no_such("sg-", &id));
    };
    for rule in &mut rules {
        if group.ingress.iter().any(|known| is_same_rule(known, rule)) {
            return Err(ApiError::client(
                "InvalidPermission.Duplicate",
                format!(
                    "the specified rule \"peer: {}, {}, from port: {}, to port: {}, ALLOW\" \
                     already exists",
                    rule.cidr,
                    rule.protocol.to_uppercase(),
                    rule.from.unwrap_or(-1),
                    rule.to.unwrap_or(-1)
                ),
            ));
        }
        rule.id = new_id("sgr-")?;
        group.ingress.push(rule.clone());
    }
    let items = rules.iter().map(|rule| rule_item(&id, rule));
    Ok(vec![
        Xml::text("return", true),
        Xml::list("securityGroupRuleSet", items),
    ])
}

/// `UpdateSecurityGroupRuleDescriptionsIngress`: of existing rules, all or none.
pub(super) fn describe_ingress(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = group_id(request, &change.world)?;
    let rules = rules(request)?;
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
            .find(|known| is_same_rule(known, &rule));
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
    let rules = rules(request)?;
    let ids = request.list("SecurityGroupRuleId");
    if rules.is_empty() && ids.is_empty() {
        return Err(missing("ipPermissions"));
    }
    let Some(group) = change.world.groups.get_mut(&id) else {
        return Err(no_such("sg-", &id));
    };
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
        .any(|rule| !group.ingress.iter().any(|known| is_same_rule(known, rule)))
    {
        return Err(ApiError::client(
            "InvalidPermission.NotFound",
            "The specified rule does not exist in this security group.",
        ));
    }
    group.ingress.retain(|known| {
        !ids.contains(&known.id.as_str()) && !rules.iter().any(|rule| is_same_rule(known, rule))
    });
    Ok(vec![Xml::text("return", true)])
}

fn rule_item(group: &str, rule: &Rule) -> Vec<Xml> {
    let mut item = vec![
        Xml::text("securityGroupRuleId", &rule.id),
        Xml::text("groupId", group),
        Xml::text("groupOwnerId", catalog::ACCOUNT),
        Xml::text("isEgress", false),
        Xml::text("ipProtocol", &rule.protocol),
        Xml::text("fromPort", rule.from.unwrap_or(-1)),
        Xml::text("toPort", rule.to.unwrap_or(-1)),
        Xml::text(
            if is_ipv6(rule) {
                "cidrIpv6"
            } else {
                "cidrIpv4"
            },
            &rule.cidr,
        ),
    ];
    item.extend(
        rule.description
            .as_ref()
            .map(|text| Xml::text("description", text)),
    );
    item
}

/// Rules with the same protocol and ports are one permission with many ranges.
fn permissions(name: &'static str, rules: &[Rule]) -> Xml {
    let mut grouped: Vec<(&Rule, Vec<&Rule>)> = Vec::new();
    for rule in rules {
        let key = (&rule.protocol, rule.from, rule.to);
        match grouped
            .iter_mut()
            .find(|(first, _)| (&first.protocol, first.from, first.to) == key)
        {
            Some((_, ranges)) => ranges.push(rule),
            None => grouped.push((rule, vec![rule])),
        }
    }
    let items = grouped.into_iter().map(|(first, ranges)| {
        let range = |rule: &Rule| {
            let name = if is_ipv6(rule) { "cidrIpv6" } else { "cidrIp" };
            let mut range = vec![Xml::text(name, &rule.cidr)];
            range.extend(
                rule.description
                    .as_ref()
                    .map(|text| Xml::text("description", text)),
            );
            range
        };
        let (ipv6, ipv4): (Vec<&Rule>, Vec<&Rule>) =
            ranges.into_iter().partition(|rule| is_ipv6(rule));
        let mut item = vec![Xml::text("ipProtocol", &first.protocol)];
        item.extend(first.from.map(|port| Xml::text("fromPort", port)));
        item.extend(first.to.map(|port| Xml::text("toPort", port)));
        item.push(Xml::list("ipRanges", ipv4.into_iter().map(range)));
        item.push(Xml::list("ipv6Ranges", ipv6.into_iter().map(range)));
        item
    });
    Xml::list(name, items)
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
        return Err(ApiError::client(
            "InvalidGroup.NotFound",
            format!(
                "The security group '{name}' does not exist in default VPC '{}'",
                catalog::VPC
            ),
        ));
    }
    let filters = Filters::new(
        request,
        &[
            "description",
            "group-id",
            "group-name",
            "ip-permission.cidr",
            "ip-permission.from-port",
            "ip-permission.ipv6-cidr",
            "ip-permission.protocol",
            "ip-permission.to-port",
            "owner-id",
            "vpc-id",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeSecurityGroups", 5, by_id)?;
    let mut found = Vec::new();
    for (id, group) in groups() {
        let wanted = !by_id || ids.contains(&id.as_str()) || names.contains(&group.name.as_str());
        if wanted && filters.pass(&group.tags.at(at), |name| field(id, group, name))? {
            found.push((id.clone(), item(id, group, at)));
        }
    }
    Ok(page.answer("securityGroupInfo", found))
}

fn field(id: &str, group: &Group, name: &str) -> Field {
    let ingress = || group.ingress.iter();
    match name {
        "description" => Field::one(&group.description),
        "group-id" => Field::one(id),
        "group-name" => Field::one(&group.name),
        "ip-permission.cidr" => Field::many(
            ingress()
                .filter(|rule| !is_ipv6(rule))
                .map(|rule| &rule.cidr),
        ),
        "ip-permission.ipv6-cidr" => Field::many(
            ingress()
                .filter(|rule| is_ipv6(rule))
                .map(|rule| &rule.cidr),
        ),
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
        permissions("ipPermissions", &group.ingress),
        permissions("ipPermissionsEgress", &group.egress),
        tags::set(&group.tags, at),
    ]
}
