//! Mount targets: by which the hosts in a zone have a share. One for each zone, made when a host first needs
//! it there.
//!
//! A mount target costs nothing, and stays until its share is deleted. Its group lets in the instances
//! of the group that it was made for; a host of another group is let in when it comes.

use std::net::Ipv4Addr;

use anyhow::anyhow;

use super::calls::{failed, retried, until};
use crate::ec2::{
    Ec2, FileSystem, Group, Instance, MountTarget, OWNER, Rule, RuleSource, ShareState, Tags,
};
use crate::failure::{Exit, Failure};
use crate::ids::{GroupId, SubnetId, VpcId};

/// NFS's port (EFS user guide, *Using VPC security groups*).
const NFS: i32 = 2049;

/// The prefix of the name of a mount target's group, before the id of the group that it lets in.
const GROUP: &str = "xdrive-share-";

/// The description of its rule (EC2 API reference, `IpRange`: the characters of one).
const RULE: &str = "NFS of shares, by xdrive";

/// Whether a rule lets hosts in at mount targets, and is xdrive's.
pub(crate) fn is_own(rule: &Rule) -> bool {
    rule.description == RULE && rule.ports == Some((NFS, NFS))
}

/// Whether a group is a mount target's: its rule names the group of hosts, which goes after it.
pub(crate) fn is_of_targets(group: &Group) -> bool {
    group.name.starts_with(GROUP)
}

/// A host, and where it is.
struct Place<'a> {
    host: &'a Instance,
    subnet: &'a SubnetId,
    vpc: &'a VpcId,
    /// The host's group, by which it is let in.
    source: &'a GroupId,
}

/// The address at which the host has this file system, which is the share `name`: that of the mount target in
/// its zone, which is made if there is none. What is made has these `tags`. Waits until it can be used, for
/// minutes.
pub(crate) async fn reach(
    ec2: &Ec2,
    name: &str,
    of: &FileSystem,
    host: &Instance,
    tags: &Tags,
) -> Result<Ipv4Addr, Failure> {
    let place = Place::of_host(host)?;
    place.check_zone(name, of)?;
    // Twice: another computer may make it at the same time.
    for _ in 0..2 {
        let known = ec2.mount_targets(&of.id).await.map_err(failed)?;
        place.check_vpc(name, &known)?;
        if let Some(target) = known.iter().find(|it| place.is_here(it)) {
            place.admit(ec2, target, tags).await?;
        } else {
            let group = place.group(ec2, tags).await?;
            let make = || ec2.create_mount_target(&of.id, place.subnet, &group);
            if retried(make).await?.is_none() {
                continue;
            }
        }
        let is_ready = |all: &Vec<MountTarget>| {
            let target = all.iter().find(|it| place.is_here(it));
            target.is_none_or(|it| it.state == ShareState::Available && it.address.is_some())
        };
        let look = || ec2.mount_targets(&of.id);
        let found = until(look, is_ready, &mut || Ok(())).await?;
        let target = found.into_iter().find(|it| place.is_here(it));
        if let Some(address) = target.and_then(|it| it.address) {
            return Ok(address);
        }
    }
    let error = anyhow!("the share {name} has no mount target in {} yet", host.zone);
    Err(Failure::new(Exit::TryAgain, error).hint("the same command again makes it"))
}

impl<'a> Place<'a> {
    fn of_host(host: &'a Instance) -> Result<Self, Failure> {
        let place = host.subnet.as_ref().zip(host.groups.first());
        let ((subnet, vpc), source) = place.ok_or_else(|| {
            let error = anyhow!("{} is in no subnet, or in no security group", host.id);
            Failure::new(Exit::TryAgain, error)
        })?;
        Ok(Self {
            host,
            subnet,
            vpc,
            source,
        })
    }

    /// Refuses a file system that is kept in another zone alone: reading it here would cost besides, and end
    /// with that zone.
    fn check_zone(&self, name: &str, of: &FileSystem) -> Result<(), Failure> {
        match &of.zone {
            Some(zone) if *zone != self.host.zone => {
                let here = &self.host.zone;
                let error =
                    anyhow!("the share {name} is kept in {zone} alone, and the host is in {here}");
                let hint =
                    "--subnet has one of that zone; a share of xdrive's is kept in all zones";
                Err(Failure::new(Exit::Config, error).hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// Refuses mount targets of another VPC, beside which there can be none here (EFS API reference,
    /// `CreateMountTarget`).
    fn check_vpc(&self, name: &str, known: &[MountTarget]) -> Result<(), Failure> {
        let left = known.iter().filter(|it| it.state.is_left());
        let mut vpcs = left.filter_map(|it| it.vpc.as_ref());
        let Some(other) = vpcs.find(|vpc| *vpc != self.vpc) else {
            return Ok(());
        };
        let error = anyhow!(
            "the share {name} is in {other}, and the host in {}",
            self.vpc
        );
        let hint = "a share is in one VPC: --subnet has one of that, or take another share";
        Err(Failure::new(Exit::Config, error).hint(hint))
    }

    fn is_here(&self, target: &MountTarget) -> bool {
        target.state.is_left() && target.zone.as_ref() == Some(&self.host.zone)
    }

    /// The rule that lets the host in.
    fn rule(&self) -> Rule {
        Rule {
            protocol: "tcp".to_owned(),
            ports: Some((NFS, NFS)),
            from: RuleSource::Group(self.source.clone()),
            description: RULE.to_owned(),
        }
    }

    /// The group for a new mount target, with its rule.
    async fn group(&self, ec2: &Ec2, tags: &Tags) -> Result<GroupId, Failure> {
        let name = format!("{GROUP}{}", self.source);
        let mut known = ec2.group_named(&name, self.vpc).await?.map(|it| it.id);
        if known.is_none() {
            let about = format!("NFS of shares for {}, by xdrive", self.source);
            known = ec2.create_group(&name, &about, self.vpc, tags).await?;
        }
        if known.is_none() {
            // Somebody else was faster.
            known = ec2.group_named(&name, self.vpc).await?.map(|it| it.id);
        }
        let id = known.ok_or_else(|| {
            let error = anyhow!("the security group {name} cannot be seen yet");
            Failure::new(Exit::TryAgain, error)
        })?;
        let rule = self.rule();
        retried(|| ec2.authorize(&id, &rule)).await?;
        Ok(id)
    }

    /// Lets the host in at a mount target that has a group of xdrive's, best of the owner in these `tags`;
    /// another one is somebody else's to open.
    async fn admit(&self, ec2: &Ec2, target: &MountTarget, tags: &Tags) -> Result<(), Failure> {
        let guards = ec2.mount_target_groups(&target.id).await.map_err(failed)?;
        let guards = ec2.tagged_groups(&guards).await?;
        let lets_in = |rule: &Rule| {
            let has_port = rule.ports.is_none_or(|(from, to)| from <= NFS && NFS <= to);
            let RuleSource::Group(group) = &rule.from else {
                return false;
            };
            has_port && self.host.groups.contains(group)
        };
        let is_ours = |group: &&Group| group.tags.get(OWNER) == tags.get(OWNER);
        match guards.iter().find(is_ours).or(guards.first()) {
            Some(first) if !guards.iter().flat_map(|it| &it.rules).any(lets_in) => {
                let rule = self.rule();
                retried(|| ec2.authorize(&first.id, &rule)).await
            }
            _ => Ok(()),
        }
    }
}
