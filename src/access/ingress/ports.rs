//! Ports of a drive's host that others may reach: a group of the drive's own, beside its owner's, which all
//! hosts of the owner have.
//!
//! The instance gets it once it is there, and the rules are what the drive says then. Without an instance it
//! lets nobody in anywhere; `gc` deletes it.

use super::rules::{UNSEEN, group_name, once_seen};
use crate::drive::{HostError, tags};
use crate::ec2::{Ec2, Error, Group, Instance, Kind, OpenPort, Rule, Tags};
use crate::ids::{DriveName, GroupId, VpcId};
use crate::retry::retry;

/// Has these `ports` of the drive's host be open, and no others that were. A group that is made has the
/// `own` tags of the account's.
pub(crate) async fn open(
    ec2: &Ec2,
    drive: &DriveName,
    host: &Instance,
    ports: &[OpenPort],
    own: &Tags,
) -> Result<(), HostError> {
    // A host has its owner's group alone, unless ports of it were opened.
    if ports.is_empty() && host.groups.len() < 2 {
        return Ok(());
    }
    let Some((_, vpc)) = &host.subnet else {
        return Ok(());
    };
    let owner = tags::owner(&host.tags);
    let name = format!("{}-{drive}", group_name(owner));
    let known = ec2.group_named(&name, vpc).await?;
    let known = known.filter(|group| tags::owner(&group.tags) == owner);
    if ports.is_empty() {
        return Ok(close(ec2, host, known).await?);
    }
    let wanted: Vec<Rule> = ports.iter().flat_map(OpenPort::rules).collect();
    let (id, there) = match known {
        Some(group) => (group.id, group.rules),
        None => (make(ec2, drive, owner, &name, vpc, own).await?, Vec::new()),
    };
    for rule in there.iter().filter(|rule| !wanted.contains(rule)) {
        ec2.revoke(&id, rule).await?;
    }
    for rule in wanted.iter().filter(|rule| !there.contains(rule)) {
        once_seen(|| ec2.authorize(&id, rule)).await?;
    }
    if host.groups.contains(&id) {
        return Ok(());
    }
    let groups: Vec<GroupId> = host.groups.iter().cloned().chain([id]).collect();
    Ok(once_seen(|| ec2.set_groups(&host.id, &groups)).await?)
}

/// Takes the drive's group from its host, and deletes it.
async fn close(ec2: &Ec2, host: &Instance, known: Option<Group>) -> Result<(), Error> {
    let Some(group) = known.filter(|group| host.groups.contains(&group.id)) else {
        return Ok(());
    };
    let others = host.groups.iter().filter(|id| **id != group.id);
    let others: Vec<GroupId> = others.cloned().collect();
    ec2.set_groups(&host.id, &others).await?;
    match ec2.delete_group(&group.id).await {
        // Not every part of EC2 knows yet that the host is without it. `gc` deletes it then.
        Err(error) if error.kind == Kind::State => Ok(()),
        done => done,
    }
}

async fn make(
    ec2: &Ec2,
    drive: &DriveName,
    owner: &str,
    name: &str,
    vpc: &VpcId,
    own: &Tags,
) -> Result<GroupId, HostError> {
    let mut tags = tags::group(owner);
    tags.insert(crate::ec2::DRIVE.to_owned(), drive.to_string());
    tags.extend(own.clone());
    let about = format!("Who may reach ports of the drive {drive}");
    if let Some(id) = ec2.create_group(name, &about, vpc, &tags).await? {
        return Ok(id);
    }
    // Somebody else was faster, and not every call sees it.
    let is_early = |found: &Result<Option<Group>, Error>| matches!(found, Ok(None));
    let found = retry(&UNSEEN, is_early, || ec2.group_named(name, vpc)).await?;
    let found = found.filter(|group| tags::owner(&group.tags) == owner);
    found.map(|group| group.id).ok_or_else(|| {
        HostError::Failed(format!(
            "the security group {name} in {vpc} is not this owner's"
        ))
    })
}
