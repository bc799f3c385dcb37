//! The table: what can be called, what each call understands, and who carries it out.

use super::request::Request;
use super::{
    Answer, Reading, account, attachments, blocks, experiments, groups, images, instances, launch,
    network, quotas, snapshots, spot, status, tags, volumes,
};
use crate::local::change::Change;

/// How a call is carried out.
pub(super) enum Run {
    /// Reads a world, no lock held.
    Read(fn(&Reading<'_>) -> Answer),
    /// Changes the world, under the lock.
    Write(fn(Request<'_>, &mut Change<'_>) -> Answer),
}

/// One row of the table.
pub(super) struct Call {
    pub(super) name: &'static str,
    /// The answer's root element.
    pub(super) answer: &'static str,
    /// What it understands: `#` stands for a list's index; a name that ends in `!` is required.
    pub(super) parameters: &'static [&'static str],
    pub(super) run: Run,
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
pub(super) const CALLS: &[Call] = &[
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
            "IamInstanceProfile.Arn",
            "IamInstanceProfile.Name",
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
        "DescribeInstanceStatus",
        Run::Read(status::describe),
        [
            "InstanceId.#",
            "IncludeAllInstances",
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
        "DescribeRouteTables",
        Run::Read(network::route_tables),
        [
            "RouteTableId.#",
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
            "IpPermissions.#.Ipv6Ranges.#.CidrIpv6",
            "IpPermissions.#.Ipv6Ranges.#.Description",
        ]
    ),
    call!(
        "UpdateSecurityGroupRuleDescriptionsIngress",
        Run::Write(groups::describe_ingress),
        [
            "GroupId",
            "GroupName",
            "IpPermissions.#.IpProtocol",
            "IpPermissions.#.FromPort",
            "IpPermissions.#.ToPort",
            "IpPermissions.#.IpRanges.#.CidrIp",
            "IpPermissions.#.IpRanges.#.Description",
            "IpPermissions.#.Ipv6Ranges.#.CidrIpv6",
            "IpPermissions.#.Ipv6Ranges.#.Description",
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
            "IpPermissions.#.Ipv6Ranges.#.CidrIpv6",
            "IpPermissions.#.Ipv6Ranges.#.Description",
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
    call!(
        "CreateExperimentTemplate",
        Run::Write(experiments::create_template),
        ["Body!"]
    ),
    call!(
        "DeleteExperimentTemplate",
        Run::Write(experiments::delete_template),
        ["Id!"]
    ),
    call!("StartExperiment", Run::Write(experiments::start), ["Body!"]),
    call!("GetExperiment", Run::Read(experiments::get), ["Id!"]),
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
    call!(
        "GetServiceQuota",
        Run::Read(quotas::get),
        ["ServiceCode!", "QuotaCode!"]
    ),
];
