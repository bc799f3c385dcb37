//! Rules by which the hosts of a group reach each other, as one network takes it.
//!
//! The group is the owner's, and has these rules while there are workers: from itself, on the ports of
//! Docker's Swarm (Docker docs, *Swarm mode: open protocols and ports*), and from nowhere else.

use anyhow::anyhow;

use crate::drive::tags;
use crate::ec2::{Ec2, Error, Group, Instance, Rule, RuleSource};
use crate::failure::{Exit, Failure};
use crate::ids::GroupId;

/// The ports of a swarm: its management, its members' talk, and the network's data (VXLAN).
const PORTS: [(&str, i32); 4] = [("tcp", 2377), ("tcp", 7946), ("udp", 7946), ("udp", 4789)];

/// The description of a rule.
const RULE: &str = "workers of a drive, by xdrive";

/// The rules by which the hosts of this group reach each other.
fn rules(group: &GroupId) -> Vec<Rule> {
    let rule = |(protocol, port): (&str, i32)| Rule {
        protocol: protocol.to_owned(),
        ports: Some((port, port)),
        from: RuleSource::Group(group.clone()),
        description: RULE.to_owned(),
    };
    PORTS.map(rule).into()
}

/// Whether a rule of this group is for workers, and xdrive's.
pub(crate) fn is_own(group: &GroupId, rule: &Rule) -> bool {
    rules(group).contains(rule)
}

/// Has the hosts of `owner` in the group of this `leader` reach each other.
pub(crate) async fn connect_hosts(
    ec2: &Ec2,
    leader: &Instance,
    owner: &str,
) -> Result<(), Failure> {
    let group = group(ec2, leader, owner).await?.ok_or_else(|| {
        let error = anyhow!(
            "{} has no security group of xdrive's",
            leader.id.short_label()
        );
        let hint = "workers are for a drive that xdrive has launched for the same caller";
        Failure::new(Exit::Unavailable, error).hint(hint)
    })?;
    for rule in rules(&group.id) {
        if !group.rules.contains(&rule) {
            ec2.authorize(&group.id, &rule).await?;
        }
    }
    Ok(())
}

/// Takes those rules away where no worker of `owner` is left.
pub(crate) async fn part_hosts(ec2: &Ec2, owner: &str) -> Result<(), Error> {
    for group in ec2.groups_of(owner).await? {
        for rule in group.rules.iter().filter(|rule| is_own(&group.id, rule)) {
            ec2.revoke(&group.id, rule).await?;
        }
    }
    Ok(())
}

/// The owner's group that the instance is in.
async fn group(ec2: &Ec2, instance: &Instance, owner: &str) -> Result<Option<Group>, Error> {
    let found = ec2.tagged_groups(&instance.groups).await?.into_iter();
    Ok(found.into_iter().find(|it| tags::owner(&it.tags) == owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_hosts_of_one_group_need_of_each_other_is_for_workers() {
        let group: GroupId = "sg-0abc".parse().unwrap();
        let rules = rules(&group);
        assert!(rules.iter().all(|rule| is_own(&group, rule)));
        let other = "sg-0def".parse().unwrap();
        for rule in [
            Rule {
                from: RuleSource::Group(other),
                ..rules[0].clone()
            },
            Rule {
                from: RuleSource::Cidr("0.0.0.0/0".parse().unwrap()),
                ..rules[0].clone()
            },
            Rule {
                ports: Some((0, 65535)),
                ..rules[0].clone()
            },
            Rule {
                description: String::new(),
                ..rules[0].clone()
            },
        ] {
            assert!(!is_own(&group, &rule), "{rule:?}");
        }
    }

    #[test]
    fn hosts_reach_each_other_where_the_scripts_listen() {
        let swarm = include_str!("../../shell/host/swarm");
        assert!(swarm.contains("2377 by TCP, 7946 by both, 4789 by UDP"));
        assert!(swarm.contains("\nPORT=2377 TALK=7946\n"));
    }
}
