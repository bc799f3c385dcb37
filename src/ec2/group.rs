//! Security groups: who may reach an instance's port 22.
//!
//! Every effect may be repeated, so the patient client makes these calls: a group or rule that
//! exists already, or is gone already, is success. A group's tags, part of the create call, tell it
//! from others of its name. Rules are read from their group (`DescribeSecurityGroups` has them with
//! their descriptions), and revoked by port and range.

use aws_sdk_ec2::types::{Filter, IpPermission, IpRange, Ipv6Range, ResourceType, SecurityGroup};
use jiff::Timestamp;

use super::change::tagged;
use super::error::NO_GROUP;
use super::pages::{PAGE, read_pages};
use super::{Cidr, Ec2, Error, OWNER, Tags, convert};
use crate::ids::{GroupId, VpcId};

/// The port of every rule here.
const PORT: i32 = 22;

/// A security group and its ingress rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group's id.
    pub id: GroupId,
    /// The group's name, unique in its VPC.
    pub name: String,
    /// The group's VPC.
    pub vpc: VpcId,
    /// The ranges that may reach port 22 by TCP.
    pub rules: Vec<Rule>,
    /// Whether it has any other ingress rule: one that xdrive did not make.
    pub has_other_rules: bool,
    /// The group's tags.
    pub tags: Tags,
}

/// A range of addresses that may reach port 22 by TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The range.
    pub from: Cidr,
    /// The rule's description.
    pub description: String,
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

    /// Authorizes one range; success if it is authorized already. A group that was just made may
    /// still be [`super::Kind::NotFound`].
    pub async fn authorize(&self, group: &GroupId, rule: &Rule) -> Result<(), Error> {
        let answer = self
            .patient
            .authorize_security_group_ingress()
            .group_id(group.as_str())
            .ip_permissions(permission(rule.from, Some(&rule.description)))
            .send()
            .await
            .map_err(|error| Error::from_sdk("AuthorizeSecurityGroupIngress", &error));
        unless(answer, &["InvalidPermission.Duplicate"]).map(drop)
    }

    /// Updates the description of the rule for one range. `false` if there is no such rule or
    /// group.
    pub async fn describe_rule(&self, group: &GroupId, rule: &Rule) -> Result<bool, Error> {
        let answer = self
            .patient
            .update_security_group_rule_descriptions_ingress()
            .group_id(group.as_str())
            .ip_permissions(permission(rule.from, Some(&rule.description)))
            .send()
            .await
            .map_err(|error| Error::from_sdk("UpdateSecurityGroupRuleDescriptionsIngress", &error));
        let is_there = unless(answer, &["InvalidPermission.NotFound", NO_GROUP])?;
        Ok(is_there.is_some())
    }

    /// Revokes one range; success if there is no such rule or group.
    pub async fn revoke(&self, group: &GroupId, from: Cidr) -> Result<(), Error> {
        let answer = self
            .patient
            .revoke_security_group_ingress()
            .group_id(group.as_str())
            .ip_permissions(permission(from, None))
            .send()
            .await
            .map_err(|error| Error::from_sdk("RevokeSecurityGroupIngress", &error));
        unless(answer, &["InvalidPermission.NotFound", NO_GROUP]).map(drop)
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

/// The answer, or none if its error is one of `codes`, which mean that there was nothing to do.
fn unless<T>(answer: Result<T, Error>, codes: &[&str]) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if codes.contains(&error.code.as_str()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Port 22 from one range. EC2 identifies a rule without its description.
pub(super) fn permission(from: Cidr, description: Option<&str>) -> IpPermission {
    let permission = IpPermission::builder()
        .ip_protocol("tcp")
        .from_port(PORT)
        .to_port(PORT);
    let description = description.map(str::to_owned);
    if from.is_ipv6() {
        let range = Ipv6Range::builder()
            .cidr_ipv6(from.to_string())
            .set_description(description);
        permission.ipv6_ranges(range.build()).build()
    } else {
        let range = IpRange::builder()
            .cidr_ip(from.to_string())
            .set_description(description);
        permission.ip_ranges(range.build()).build()
    }
}

fn group(answer: &SecurityGroup) -> Result<Group, String> {
    let id = convert::id("a security group's id", answer.group_id())?;
    let mut rules = Vec::new();
    let mut has_other_rules = false;
    for permission in answer.ip_permissions() {
        let is_ssh = permission.ip_protocol() == Some("tcp")
            && permission.from_port() == Some(PORT)
            && permission.to_port() == Some(PORT);
        let only_ranges =
            permission.user_id_group_pairs().is_empty() && permission.prefix_list_ids().is_empty();
        has_other_rules |= !is_ssh || !only_ranges;
        if !is_ssh {
            continue;
        }
        let ipv4 = permission.ip_ranges().iter();
        let ipv4 = ipv4.map(|range| (range.cidr_ip(), range.description()));
        let ipv6 = permission.ipv6_ranges().iter();
        let ipv6 = ipv6.map(|range| (range.cidr_ipv6(), range.description()));
        for (from, description) in ipv4.chain(ipv6) {
            let from = from.unwrap_or_default();
            rules.push(Rule {
                from: from
                    .parse()
                    .map_err(|error| format!("{id}'s rule: {error}"))?,
                description: description.unwrap_or_default().to_owned(),
            });
        }
    }
    Ok(Group {
        name: answer.group_name().unwrap_or_default().to_owned(),
        vpc: convert::id(&format!("{id}'s VPC"), answer.vpc_id())?,
        rules,
        has_other_rules,
        tags: convert::tags(answer.tags()),
        id,
    })
}
