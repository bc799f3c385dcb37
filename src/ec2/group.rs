//! Security groups: who may reach which ports of an instance.
//!
//! Every effect may be repeated, so the patient client makes these calls: a group or rule that
//! exists already, or is gone already, is success. A group's tags, part of the create call, tell it
//! from others of its name. Rules are read from their group (`DescribeSecurityGroups` has them with
//! their descriptions), and revoked by protocol, ports and source.

use std::fmt;

use aws_sdk_ec2::types::{
    Filter, IpPermission, IpRange, Ipv6Range, PrefixListId, ResourceType, SecurityGroup,
    UserIdGroupPair,
};
use jiff::Timestamp;

use super::change::tagged;
use super::error::{NO_GROUP, unless};
use super::pages::{PAGE, read_pages};
use super::{Cidr, Ec2, Error, OWNER, Tags, convert};
use crate::ids::{GroupId, InstanceId, VpcId};

/// A security group and its ingress rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group's id.
    pub id: GroupId,
    /// The group's name, unique in its VPC.
    pub name: String,
    /// The group's VPC.
    pub vpc: VpcId,
    /// All its ingress rules.
    pub rules: Vec<Rule>,
    /// The group's tags.
    pub tags: Tags,
}

/// An ingress rule of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The protocol's name, such as `tcp`, or its number where EC2 has no name for it; `-1` is any.
    pub protocol: String,
    /// The first and the last port, or the type and code of ICMP; none if it is about any.
    pub ports: Option<(i32, i32)>,
    /// The source that is let in.
    pub from: RuleSource,
    /// The rule's description. EC2 identifies a rule without it.
    pub description: String,
}

/// The source that a rule lets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSource {
    /// A range of addresses.
    Cidr(Cidr),
    /// The instances of a group.
    Group(GroupId),
    /// The ranges of a prefix list, by its id.
    PrefixList(String),
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cidr(cidr) => cidr.fmt(f),
            Self::Group(group) => group.fmt(f),
            Self::PrefixList(list) => list.fmt(f),
        }
    }
}

/// `value` escaped for a filter. Filter values are patterns, in which `*`, `?` and `\` are escaped
/// by `\` (EC2 user guide, *Filtering*).
fn literally(value: &str) -> String {
    let mut pattern = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '*' | '?' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

impl Ec2 {
    /// The group called `name` in `vpc`, of any owner.
    pub async fn group_named(&self, name: &str, vpc: &VpcId) -> Result<Option<Group>, Error> {
        let filters = [
            ("group-name", literally(name)),
            ("vpc-id", vpc.as_str().to_owned()),
        ];
        let found = self.groups_where(&filters).await?;
        Ok(found.into_iter().next())
    }

    /// All groups whose owner, by their tags, is `owner`.
    pub async fn groups_of(&self, owner: &str) -> Result<Vec<Group>, Error> {
        let name = format!("tag:{OWNER}");
        self.groups_where(&[(&name, literally(owner))]).await
    }

    /// Reads the groups among `ids` that carry xdrive's tags.
    pub async fn tagged_groups(&self, ids: &[GroupId]) -> Result<Vec<Group>, Error> {
        // By filter: an id that is gone is then no error.
        let mut found = Vec::new();
        for id in ids {
            let filters = [
                ("group-id", id.as_str().to_owned()),
                ("tag-key", OWNER.to_owned()),
            ];
            found.extend(self.groups_where(&filters).await?);
        }
        Ok(found)
    }

    async fn groups_where(&self, filters: &[(&str, String)]) -> Result<Vec<Group>, Error> {
        const CALL: &str = "DescribeSecurityGroups";
        let filters = filters
            .iter()
            .map(|(name, value)| Filter::builder().name(*name).values(value).build())
            .collect();
        let pages = self
            .patient
            .describe_security_groups()
            .set_filters(Some(filters))
            .into_paginator()
            .page_size(PAGE)
            .send();
        read_pages(CALL, pages, |page| {
            page.security_groups().iter().map(group).collect()
        })
        .await
    }

    /// Since when instances of any owner use a group: the earliest launch of those not terminated;
    /// `None` if none does.
    pub async fn group_used_since(&self, group: &GroupId) -> Result<Option<Timestamp>, Error> {
        let states = ["pending", "running", "shutting-down", "stopping", "stopped"];
        let filter = |name: &str| Filter::builder().name(name);
        let of_group = filter("instance.group-id").values(group.as_str());
        let not_terminated =
            filter("instance-state-name").set_values(Some(states.map(str::to_owned).into()));
        let filters = vec![of_group.build(), not_terminated.build()];
        let users = self.instances_where(filters).await?;
        Ok(users.iter().map(|user| user.launched).min())
    }

    /// Makes the group `name` in `vpc`, with its tags and no ingress rule; its id. `None` if that
    /// name is taken.
    pub async fn create_group(
        &self,
        name: &str,
        description: &str,
        vpc: &VpcId,
        tags: &Tags,
    ) -> Result<Option<GroupId>, Error> {
        const CALL: &str = "CreateSecurityGroup";
        let answer = self
            .patient
            .create_security_group()
            .group_name(name)
            .description(description)
            .vpc_id(vpc.as_str())
            .tag_specifications(tagged(ResourceType::SecurityGroup, tags))
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error));
        match unless(answer, &["InvalidGroup.Duplicate"])? {
            None => Ok(None),
            Some(made) => convert::id("the group's id", made.group_id())
                .map(Some)
                .map_err(|doubt| Error::unreadable(CALL, doubt)),
        }
    }

    /// Authorizes what one rule describes; success if that is authorized already. A group that was just made may
    /// still be [`super::Kind::NotFound`].
    pub async fn authorize(&self, group: &GroupId, rule: &Rule) -> Result<(), Error> {
        let answer = self
            .patient
            .authorize_security_group_ingress()
            .group_id(group.as_str())
            .ip_permissions(permission(rule, Some(&rule.description)))
            .send()
            .await
            .map_err(|error| Error::from_sdk("AuthorizeSecurityGroupIngress", &error));
        unless(answer, &["InvalidPermission.Duplicate"]).map(drop)
    }

    /// Updates the description of a rule. `false` if there is no such rule or group.
    pub async fn describe_rule(&self, group: &GroupId, rule: &Rule) -> Result<bool, Error> {
        let answer = self
            .patient
            .update_security_group_rule_descriptions_ingress()
            .group_id(group.as_str())
            .ip_permissions(permission(rule, Some(&rule.description)))
            .send()
            .await
            .map_err(|error| Error::from_sdk("UpdateSecurityGroupRuleDescriptionsIngress", &error));
        let is_there = unless(answer, &["InvalidPermission.NotFound", NO_GROUP])?;
        Ok(is_there.is_some())
    }

    /// Revokes a rule; success if there is no such rule or group.
    pub async fn revoke(&self, group: &GroupId, rule: &Rule) -> Result<(), Error> {
        let answer = self
            .patient
            .revoke_security_group_ingress()
            .group_id(group.as_str())
            .ip_permissions(permission(rule, None))
            .send()
            .await
            .map_err(|error| Error::from_sdk("RevokeSecurityGroupIngress", &error));
        unless(answer, &["InvalidPermission.NotFound", NO_GROUP]).map(drop)
    }

    /// Gives an instance these security groups in place of those that it has (`ModifyInstanceAttribute`). Harmless
    /// to repeat.
    pub async fn set_groups(&self, instance: &InstanceId, groups: &[GroupId]) -> Result<(), Error> {
        let groups = groups.iter().map(|id| id.as_str().to_owned()).collect();
        self.patient
            .modify_instance_attribute()
            .instance_id(instance.as_str())
            .set_groups(Some(groups))
            .send()
            .await
            .map_err(|error| Error::from_sdk("ModifyInstanceAttribute", &error))?;
        Ok(())
    }

    /// Deletes a group; gone already is success. [`super::Kind::State`] while anything uses it.
    pub async fn delete_group(&self, group: &GroupId) -> Result<(), Error> {
        let answer = self
            .patient
            .delete_security_group()
            .group_id(group.as_str())
            .send()
            .await
            .map_err(|error| Error::from_sdk("DeleteSecurityGroup", &error));
        unless(answer, &[NO_GROUP]).map(drop)
    }
}

/// The rule as EC2's calls have it, with this description.
pub(super) fn permission(rule: &Rule, description: Option<&str>) -> IpPermission {
    let (from, to) = rule.ports.unzip();
    let permission = IpPermission::builder()
        .ip_protocol(&rule.protocol)
        .set_from_port(from)
        .set_to_port(to);
    let description = description.map(str::to_owned);
    match &rule.from {
        RuleSource::Cidr(cidr) if cidr.is_ipv6() => {
            let range = Ipv6Range::builder().cidr_ipv6(cidr.to_string());
            permission.ipv6_ranges(range.set_description(description).build())
        }
        RuleSource::Cidr(cidr) => {
            let range = IpRange::builder().cidr_ip(cidr.to_string());
            permission.ip_ranges(range.set_description(description).build())
        }
        RuleSource::Group(group) => {
            let pair = UserIdGroupPair::builder().group_id(group.as_str());
            permission.user_id_group_pairs(pair.set_description(description).build())
        }
        RuleSource::PrefixList(list) => {
            let list = PrefixListId::builder().prefix_list_id(list);
            permission.prefix_list_ids(list.set_description(description).build())
        }
    }
    .build()
}

/// The rules of one permission: one for each of its sources.
fn rules(permission: &IpPermission) -> Result<Vec<Rule>, String> {
    let cidr = |text: Option<&str>| {
        let cidr = text.unwrap_or_default().parse();
        cidr.map(RuleSource::Cidr)
            .map_err(|error| error.to_string())
    };
    let mut sources = Vec::new();
    for range in permission.ip_ranges() {
        sources.push((cidr(range.cidr_ip())?, range.description()));
    }
    for range in permission.ipv6_ranges() {
        sources.push((cidr(range.cidr_ipv6())?, range.description()));
    }
    for pair in permission.user_id_group_pairs() {
        let group = convert::id("its group's id", pair.group_id())?;
        sources.push((RuleSource::Group(group), pair.description()));
    }
    for list in permission.prefix_list_ids() {
        let id = list.prefix_list_id().unwrap_or_default().to_owned();
        sources.push((RuleSource::PrefixList(id), list.description()));
    }
    let rule = |(from, description): (_, Option<&str>)| Rule {
        protocol: permission.ip_protocol().unwrap_or_default().to_owned(),
        ports: permission.from_port().zip(permission.to_port()),
        from,
        description: description.unwrap_or_default().to_owned(),
    };
    Ok(sources.into_iter().map(rule).collect())
}

fn group(answer: &SecurityGroup) -> Result<Group, String> {
    let id = convert::id("a security group's id", answer.group_id())?;
    let mut all = Vec::new();
    for permission in answer.ip_permissions() {
        all.extend(rules(permission).map_err(|error| format!("{id}'s rule: {error}"))?);
    }
    Ok(Group {
        name: answer.group_name().unwrap_or_default().to_owned(),
        vpc: convert::id(&format!("{id}'s VPC"), answer.vpc_id())?,
        rules: all,
        tags: convert::tags(answer.tags()),
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(protocol: &str, ports: Option<(i32, i32)>, from: RuleSource) -> Rule {
        Rule {
            protocol: protocol.to_owned(),
            ports,
            from,
            description: format!("of {protocol}"),
        }
    }

    #[test]
    fn a_rule_of_each_source_and_protocol_is_read_as_it_was_written() {
        let cidr = |text: &str| RuleSource::Cidr(text.parse().unwrap());
        let nfs = RuleSource::Group("sg-0abc".parse().unwrap());
        let list = RuleSource::PrefixList("pl-63a5400a".to_owned());
        for rule in [
            rule("tcp", Some((22, 22)), cidr("203.0.113.7/32")),
            rule("tcp", Some((22, 22)), cidr("2001:db8::7/128")),
            rule("tcp", Some((2049, 2049)), nfs.clone()),
            rule("udp", Some((6000, 6010)), nfs.clone()),
            rule("icmp", Some((-1, -1)), cidr("0.0.0.0/0")),
            rule("-1", None, nfs),
            rule("50", None, list),
        ] {
            let written = permission(&rule, Some(&rule.description));
            assert_eq!(rules(&written).unwrap(), std::slice::from_ref(&rule));
            let bare = Rule {
                description: String::new(),
                ..rule.clone()
            };
            assert_eq!(rules(&permission(&rule, None)).unwrap(), [bare]);
        }
    }

    #[test]
    fn each_source_of_a_permission_is_a_rule_and_none_is_left_out() {
        let ipv4 = |cidr: &str| IpRange::builder().cidr_ip(cidr).build();
        let pair = UserIdGroupPair::builder();
        let answered = IpPermission::builder()
            .ip_protocol("tcp")
            .from_port(22)
            .to_port(22)
            .ip_ranges(ipv4("203.0.113.7/32"))
            .ip_ranges(ipv4("192.0.2.0/24"))
            .ipv6_ranges(Ipv6Range::builder().cidr_ipv6("2001:db8::/64").build())
            .user_id_group_pairs(pair.clone().group_id("sg-0abc").build())
            .prefix_list_ids(PrefixListId::builder().prefix_list_id("pl-0abc").build());
        let of = |permission| {
            let group = SecurityGroup::builder().group_id("sg-0123");
            group.vpc_id("vpc-0abc").ip_permissions(permission).build()
        };
        let found = group(&of(answered.build())).unwrap().rules;
        let sources: Vec<String> = found.iter().map(|rule| rule.from.to_string()).collect();
        let expected = [
            "203.0.113.7/32",
            "192.0.2.0/24",
            "2001:db8::/64",
            "sg-0abc",
            "pl-0abc",
        ];
        assert_eq!(sources, expected);
        let is_ssh = |rule: &Rule| rule.protocol == "tcp" && rule.ports == Some((22, 22));
        assert!(found.iter().all(is_ssh), "{found:?}");

        let broken = IpPermission::builder().user_id_group_pairs(pair.build());
        let error = group(&of(broken.build())).unwrap_err();
        assert!(error.starts_with("sg-0123's rule: "), "{error}");
    }
}
