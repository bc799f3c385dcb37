//! EC2's behaviour: one table of calls, one file for each family of them.
//!
//! Here a call is found, its parameters are checked against what it understands, planted faults
//! meet it, and `DryRun` ends it. What is not in the table is `InvalidAction`; a parameter that a
//! call does not understand is `UnknownParameter`, never ignored. Codes and messages are those of
//! the EC2 API reference (*Error codes*) and of recorded answers.

mod account;
mod attachments;
mod blocks;
mod filter;
mod groups;
mod images;
mod instances;
mod launch;
mod network;
mod order;
mod page;
mod request;
mod snapshots;
mod spot;
mod tags;
mod volumes;

use super::change::Change;
use super::wire::{ApiError, Params, Xml};
use super::world::World;
use super::{Inner, Local, faults};

use request::Request;
pub(super) use request::no_such_id;

/// The elements below an answer's root.
type Answer = Result<Vec<Xml>, ApiError>;

/// How a call is carried out.
enum Run {
    /// Reads a world, no lock held.
    Read(fn(&Reading<'_>) -> Answer),
    /// Changes the world, under the lock.
    Write(fn(Request<'_>, &mut Change<'_>) -> Answer),
}

/// One row of the table.
struct Call {
    name: &'static str,
    /// The answer's root element.
    answer: &'static str,
    /// What it understands: `#` stands for a list's index; a name that ends in `!` is required.
    parameters: &'static [&'static str],
    run: Run,
}

/// What a reading call works on.
struct Reading<'a> {
    request: Request<'a>,
    world: &'a World,
    inner: &'a Inner,
    /// The moment that lists show.
    lists: jiff::Timestamp,
    /// The moment that reads by id show.
    reads: jiff::Timestamp,
    now: jiff::Timestamp,
}

impl Reading<'_> {
    /// The moment to show: reads by id are less stale than lists.
    fn moment(&self, by_id: bool) -> jiff::Timestamp {
        if by_id { self.reads } else { self.lists }
    }
}

macro_rules! call {
    ($name:literal, $run:expr, [$($parameter:literal),* $(,)?]) => {
        Call {
            name: $name,
            answer: concat!($name, "Response"),
            parameters: &[$($parameter),*],
            run: $run,
        }
    };
}

/// Everything that can be called.
const CALLS: &[Call] = &[
    call!(
        "RunInstances",
        Run::Write(launch::run_instances),
        [
            "ImageId!",
            "InstanceType",
            "MinCount!",
            "MaxCount!",
            "ClientToken",
            "KeyName",
            "UserData",
            "SubnetId",
            "SecurityGroupId.#",
            "SecurityGroup.#",
            "Placement.AvailabilityZone",
            "Placement.Tenancy",
            "InstanceInitiatedShutdownBehavior",
            "EbsOptimized",
            "MetadataOptions.HttpTokens",
            "MetadataOptions.HttpPutResponseHopLimit",
            "MetadataOptions.HttpEndpoint",
            "InstanceMarketOptions.MarketType",
            "InstanceMarketOptions.SpotOptions.SpotInstanceType",
            "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior",
            "InstanceMarketOptions.SpotOptions.MaxPrice",
            "BlockDeviceMapping.#.DeviceName",
            "BlockDeviceMapping.#.Ebs.DeleteOnTermination",
            "BlockDeviceMapping.#.Ebs.VolumeSize",
            "BlockDeviceMapping.#.Ebs.VolumeType",
            "BlockDeviceMapping.#.Ebs.Encrypted",
            "BlockDeviceMapping.#.Ebs.Iops",
            "BlockDeviceMapping.#.Ebs.Throughput",
            "NetworkInterface.#.DeviceIndex",
            "NetworkInterface.#.AssociatePublicIpAddress",
            "NetworkInterface.#.SubnetId",
            "NetworkInterface.#.SecurityGroupId.#",
            "NetworkInterface.#.DeleteOnTermination",
            "TagSpecification.#.ResourceType",
            "TagSpecification.#.Tag.#.Key",
            "TagSpecification.#.Tag.#.Value",
        ]
    ),
    call!(
        "DescribeInstances",
        Run::Read(instances::describe),
        [
            "InstanceId.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "TerminateInstances",
        Run::Write(instances::terminate),
        ["InstanceId.#!"]
    ),
    call!(
        "RebootInstances",
        Run::Write(instances::reboot),
        ["InstanceId.#!"]
    ),
    call!(
        "ModifyInstanceAttribute",
        Run::Write(instances::modify),
        [
            "InstanceId!",
            "BlockDeviceMapping.#.DeviceName",
            "BlockDeviceMapping.#.Ebs.DeleteOnTermination",
            "BlockDeviceMapping.#.Ebs.VolumeId",
            "InstanceInitiatedShutdownBehavior.Value",
            "GroupId.#",
        ]
    ),
    call!(
        "GetConsoleOutput",
        Run::Read(instances::console),
        ["InstanceId!", "Latest"]
    ),
    call!(
        "DescribeInstanceTypes",
        Run::Read(images::describe_types),
        [
            "InstanceType.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DescribeImages",
        Run::Read(images::describe),
        [
            "ImageId.#",
            "Owner.#",
            "ExecutableBy.#",
            "IncludeDeprecated",
            "IncludeDisabled",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "CreateVolume",
        Run::Write(volumes::create),
        [
            "AvailabilityZone",
            "AvailabilityZoneId",
            "Size",
            "SnapshotId",
            "VolumeType",
            "Iops",
            "Throughput",
            "Encrypted",
            "ClientToken",
            "VolumeInitializationRate",
            "TagSpecification.#.ResourceType",
            "TagSpecification.#.Tag.#.Key",
            "TagSpecification.#.Tag.#.Value",
        ]
    ),
    call!(
        "DescribeVolumes",
        Run::Read(volumes::describe),
        [
            "VolumeId.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!("DeleteVolume", Run::Write(volumes::delete), ["VolumeId!"]),
    call!(
        "AttachVolume",
        Run::Write(attachments::attach),
        ["VolumeId!", "InstanceId!", "Device!"]
    ),
    call!(
        "DetachVolume",
        Run::Write(attachments::detach),
        ["VolumeId!", "InstanceId", "Device"]
    ),
    call!(
        "CreateSnapshot",
        Run::Write(snapshots::create),
        [
            "VolumeId!",
            "Description",
            "TagSpecification.#.ResourceType",
            "TagSpecification.#.Tag.#.Key",
            "TagSpecification.#.Tag.#.Value",
        ]
    ),
    call!(
        "DescribeSnapshots",
        Run::Read(snapshots::describe),
        [
            "SnapshotId.#",
            "Owner.#",
            "RestorableBy.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DeleteSnapshot",
        Run::Write(snapshots::delete),
        ["SnapshotId!"]
    ),
    call!(
        "CreateTags",
        Run::Write(tags::create),
        ["ResourceId.#!", "Tag.#.Key!", "Tag.#.Value",]
    ),
    call!(
        "DeleteTags",
        Run::Write(tags::delete),
        ["ResourceId.#!", "Tag.#.Key", "Tag.#.Value"]
    ),
    call!(
        "DescribeTags",
        Run::Read(tags::describe),
        [
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DescribeSpotPriceHistory",
        Run::Read(spot::prices),
        [
            "AvailabilityZone",
            "StartTime",
            "EndTime",
            "InstanceType.#",
            "ProductDescription.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DescribeSpotInstanceRequests",
        Run::Read(spot::requests),
        [
            "SpotInstanceRequestId.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DescribeAvailabilityZones",
        Run::Read(network::zones),
        [
            "ZoneName.#",
            "ZoneId.#",
            "AllAvailabilityZones",
            "Filter.#.Name",
            "Filter.#.Value.#",
        ]
    ),
    call!(
        "DescribeRegions",
        Run::Read(network::regions),
        [
            "RegionName.#",
            "AllRegions",
            "Filter.#.Name",
            "Filter.#.Value.#",
        ]
    ),
    call!(
        "DescribeSubnets",
        Run::Read(network::subnets),
        [
            "SubnetId.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DescribeVpcs",
        Run::Read(network::vpcs),
        [
            "VpcId.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "CreateSecurityGroup",
        Run::Write(groups::create),
        [
            "GroupName!",
            "GroupDescription!",
            "VpcId",
            "TagSpecification.#.ResourceType",
            "TagSpecification.#.Tag.#.Key",
            "TagSpecification.#.Tag.#.Value",
        ]
    ),
    call!(
        "DescribeSecurityGroups",
        Run::Read(groups::describe),
        [
            "GroupId.#",
            "GroupName.#",
            "Filter.#.Name",
            "Filter.#.Value.#",
            "MaxResults",
            "NextToken",
        ]
    ),
    call!(
        "DeleteSecurityGroup",
        Run::Write(groups::delete),
        ["GroupId", "GroupName"]
    ),
    call!(
        "AuthorizeSecurityGroupIngress",
        Run::Write(groups::authorize_ingress),
        [
            "GroupId",
            "GroupName",
            "IpProtocol",
            "FromPort",
            "ToPort",
            "CidrIp",
            "IpPermissions.#.IpProtocol",
            "IpPermissions.#.FromPort",
            "IpPermissions.#.ToPort",
            "IpPermissions.#.IpRanges.#.CidrIp",
            "IpPermissions.#.IpRanges.#.Description",
        ]
    ),
    call!(
        "RevokeSecurityGroupIngress",
        Run::Write(groups::revoke_ingress),
        [
            "GroupId",
            "GroupName",
            "IpProtocol",
            "FromPort",
            "ToPort",
            "CidrIp",
            "IpPermissions.#.IpProtocol",
            "IpPermissions.#.FromPort",
            "IpPermissions.#.ToPort",
            "IpPermissions.#.IpRanges.#.CidrIp",
            "IpPermissions.#.IpRanges.#.Description",
            "SecurityGroupRuleId.#",
        ]
    ),
    call!(
        "ListSnapshotBlocks",
        Run::Read(blocks::list),
        [
            "SnapshotId!",
            "MaxResults",
            "NextToken",
            "StartingBlockIndex"
        ]
    ),
    call!(
        "GetSnapshotBlock",
        Run::Read(blocks::get),
        ["SnapshotId!", "BlockIndex!", "BlockToken!"]
    ),
    call!("GetCallerIdentity", Run::Read(account::caller), []),
    call!(
        "SendSSHPublicKey",
        Run::Read(account::send_ssh_key),
        [
            "InstanceId!",
            "InstanceOSUser!",
            "SSHPublicKey!",
            "AvailabilityZone",
        ]
    ),
];

/// Carries out one call.
pub(super) fn dispatch(local: &Local, action: &str, params: &Params) -> Result<Xml, ApiError> {
    let call = CALLS
        .iter()
        .find(|call| call.name == action)
        .ok_or_else(|| {
            ApiError::client(
                "InvalidAction",
                format!("The action {action} is not valid for this web service."),
            )
        })?;
    let request = Request::new(params, call.parameters)?;
    if request.flag("DryRun")?.unwrap_or(false) {
        return Err(ApiError {
            status: 412,
            code: "DryRunOperation".to_owned(),
            message: "Request would have succeeded, but DryRun flag is set.".to_owned(),
        });
    }
    match call.run {
        Run::Read(read) => {
            let world = local.look()?;
            let lost = if faults::waiting(&world.faults, action, params) {
                local.change(|change| Ok(faults::take(&mut change.world.faults, action, params)))?
            } else {
                None
            };
            if let Some((error, _)) = lost {
                return Err(error);
            }
            let now = world.now(local.clock().now());
            let delays = local.delays();
            let children = read(&Reading {
                request,
                world: &world,
                inner: &local.0,
                lists: now - delays.stale_lists,
                reads: now - delays.stale_reads,
                now,
            })?;
            Ok(Xml::node(call.answer, children))
        }
        Run::Write(write) => local.change(|change| {
            match faults::take(&mut change.world.faults, action, params) {
                None => Ok(Ok(Xml::node(call.answer, write(request, change)?))),
                // That a fault met its call is to be remembered: the change itself succeeds.
                Some((error, carried_out)) => {
                    if carried_out {
                        write(request, change)?;
                    }
                    Ok(Err(error))
                }
            }
        })?,
    }
}
