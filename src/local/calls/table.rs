//! The table of calls: the parameters of each, and the function that carries it out.

use super::request::Request;
use super::{
    Answer, Reading, account, addresses, attachments, blocks, experiments, groups, images,
    instances, launch, modifications, network, prices, quotas, reservations, shares, snapshots,
    spot, status, tags, volumes,
};
use crate::change::Change;

/// The function that carries out a call.
pub(super) enum Run {
    /// Reads a world, no lock held.
    Read(fn(&Reading<'_>) -> Answer),
    /// Changes the world, under the lock.
    Write(fn(Request<'_>, &mut Change<'_>) -> Answer),
}

/// A row of the table: a call that is served, and its parameters.
pub(super) struct Call {
    pub(super) name: &'static str,
    /// The answer's root element.
    pub(super) answer: &'static str,
    /// The parameters it understands: `#` is a list's index; a name that ends in `!` is required.
    pub(super) parameters: &'static [&'static [&'static str]],
    pub(super) run: Run,
}

macro_rules! call {
    ($name:literal, $run:expr, [$($parameter:literal),* $(,)?] $(+ $more:ident)*) => {
        Call {
            name: $name,
            answer: concat!($name, "Response"),
            parameters: &[&[$($parameter),*], $($more),*],
            run: $run,
        }
    };
}

const FILTERS: &[&str] = &["Filter.#.Name", "Filter.#.Value.#"];
const PAGES: &[&str] = &["MaxResults", "NextToken"];
const TAGS: &[&str] = &[
    "TagSpecification.#.ResourceType",
    "TagSpecification.#.Tag.#.Key",
    "TagSpecification.#.Tag.#.Value",
];
/// Security group rules, one by one.
const PERMISSIONS: &[&str] = &[
    "IpPermissions.#.IpProtocol",
    "IpPermissions.#.FromPort",
    "IpPermissions.#.ToPort",
    "IpPermissions.#.IpRanges.#.CidrIp",
    "IpPermissions.#.IpRanges.#.Description",
    "IpPermissions.#.Ipv6Ranges.#.CidrIpv6",
    "IpPermissions.#.Ipv6Ranges.#.Description",
    "IpPermissions.#.Groups.#.GroupId",
    "IpPermissions.#.Groups.#.GroupName",
    "IpPermissions.#.Groups.#.UserId",
    "IpPermissions.#.Groups.#.Description",
];
/// An ingress rule in the short form, as parameters of the call itself.
const PERMISSION: &[&str] = &["IpProtocol", "FromPort", "ToPort", "CidrIp"];

/// All calls.
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
            "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
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
        ] + TAGS
    ),
    call!(
        "DescribeInstances",
        Run::Read(instances::describe),
        ["InstanceId.#"] + FILTERS + PAGES
    ),
    call!(
        "DescribeInstanceStatus",
        Run::Read(status::describe),
        ["InstanceId.#", "IncludeAllInstances"] + FILTERS + PAGES
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
        ["InstanceType.#"] + FILTERS + PAGES
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
        ] + FILTERS
            + PAGES
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
        ] + TAGS
    ),
    call!(
        "DescribeVolumes",
        Run::Read(volumes::describe),
        ["VolumeId.#"] + FILTERS + PAGES
    ),
    call!("DeleteVolume", Run::Write(volumes::delete), ["VolumeId!"]),
    call!(
        "ModifyVolume",
        Run::Write(modifications::modify),
        ["VolumeId!", "Size", "VolumeType", "Iops", "Throughput"]
    ),
    call!(
        "DescribeVolumesModifications",
        Run::Read(modifications::describe),
        ["VolumeId.#"] + FILTERS + PAGES
    ),
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
        ["VolumeId!", "Description"] + TAGS
    ),
    call!(
        "CopySnapshot",
        Run::Write(snapshots::copy),
        [
            "SourceRegion!",
            "SourceSnapshotId!",
            "Description",
            "Encrypted",
            "KmsKeyId",
        ] + TAGS
    ),
    call!(
        "DescribeSnapshots",
        Run::Read(snapshots::describe),
        ["SnapshotId.#", "Owner.#", "RestorableBy.#"] + FILTERS + PAGES
    ),
    call!(
        "DeleteSnapshot",
        Run::Write(snapshots::delete),
        ["SnapshotId!"]
    ),
    call!(
        "CreateTags",
        Run::Write(tags::create),
        ["ResourceId.#!", "Tag.#.Key!", "Tag.#.Value"]
    ),
    call!(
        "DeleteTags",
        Run::Write(tags::delete),
        ["ResourceId.#!", "Tag.#.Key", "Tag.#.Value"]
    ),
    call!(
        "DescribeTags",
        Run::Read(tags::describe),
        [] + FILTERS + PAGES
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
        ] + FILTERS
            + PAGES
    ),
    call!(
        "CreateCapacityReservation",
        Run::Write(reservations::create),
        [
            "ClientToken",
            "InstanceType!",
            "InstancePlatform!",
            "AvailabilityZone",
            "Tenancy",
            "InstanceCount!",
            "EndDate",
            "EndDateType",
            "InstanceMatchCriteria",
        ]
    ),
    call!(
        "DescribeCapacityReservations",
        Run::Read(reservations::describe),
        ["CapacityReservationId.#"] + FILTERS + PAGES
    ),
    call!(
        "CancelCapacityReservation",
        Run::Write(reservations::cancel),
        ["CapacityReservationId!"]
    ),
    call!(
        "GetSpotPlacementScores",
        Run::Read(spot::scores),
        [
            "InstanceType.#",
            "TargetCapacity!",
            "TargetCapacityUnitType",
            "SingleAvailabilityZone",
            "RegionName.#",
        ] + PAGES
    ),
    call!(
        "DescribeSpotInstanceRequests",
        Run::Read(spot::requests),
        ["SpotInstanceRequestId.#"] + FILTERS + PAGES
    ),
    call!(
        "DescribeAvailabilityZones",
        Run::Read(network::zones),
        ["ZoneName.#", "ZoneId.#", "AllAvailabilityZones"] + FILTERS
    ),
    call!(
        "DescribeRegions",
        Run::Read(network::regions),
        ["RegionName.#", "AllRegions"] + FILTERS
    ),
    call!(
        "DescribeSubnets",
        Run::Read(network::subnets),
        ["SubnetId.#"] + FILTERS + PAGES
    ),
    call!(
        "DescribeRouteTables",
        Run::Read(network::route_tables),
        ["RouteTableId.#"] + FILTERS + PAGES
    ),
    call!(
        "DescribeVpcs",
        Run::Read(network::vpcs),
        ["VpcId.#"] + FILTERS + PAGES
    ),
    call!(
        "AllocateAddress",
        Run::Write(addresses::allocate),
        ["Domain"] + TAGS
    ),
    call!(
        "AssociateAddress",
        Run::Write(addresses::associate),
        [
            "AllocationId",
            "PublicIp",
            "InstanceId!",
            "AllowReassociation"
        ]
    ),
    call!(
        "DisassociateAddress",
        Run::Write(addresses::disassociate),
        ["AssociationId", "PublicIp"]
    ),
    call!(
        "ReleaseAddress",
        Run::Write(addresses::release),
        ["AllocationId", "PublicIp"]
    ),
    call!(
        "DescribeAddresses",
        Run::Read(addresses::describe),
        ["AllocationId.#", "PublicIp.#"] + FILTERS
    ),
    call!(
        "CreateSecurityGroup",
        Run::Write(groups::create),
        ["GroupName!", "GroupDescription!", "VpcId"] + TAGS
    ),
    call!(
        "DescribeSecurityGroups",
        Run::Read(groups::describe),
        ["GroupId.#", "GroupName.#"] + FILTERS + PAGES
    ),
    call!(
        "DeleteSecurityGroup",
        Run::Write(groups::delete),
        ["GroupId", "GroupName"]
    ),
    call!(
        "AuthorizeSecurityGroupIngress",
        Run::Write(groups::authorize_ingress),
        ["GroupId", "GroupName"] + PERMISSIONS + PERMISSION
    ),
    call!(
        "UpdateSecurityGroupRuleDescriptionsIngress",
        Run::Write(groups::describe_ingress),
        ["GroupId", "GroupName"] + PERMISSIONS
    ),
    call!(
        "RevokeSecurityGroupIngress",
        Run::Write(groups::revoke_ingress),
        ["GroupId", "GroupName", "SecurityGroupRuleId.#"] + PERMISSIONS + PERMISSION
    ),
    call!(
        "ListSnapshotBlocks",
        Run::Read(blocks::list),
        ["SnapshotId!", "StartingBlockIndex"] + PAGES
    ),
    call!(
        "ListChangedBlocks",
        Run::Read(blocks::list_changed),
        ["FirstSnapshotId", "SecondSnapshotId!", "StartingBlockIndex"] + PAGES
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
    call!(
        "CreateFileSystem",
        Run::Write(shares::create),
        [
            "CreationToken!",
            "PerformanceMode",
            "Encrypted",
            "ThroughputMode",
            "Tag.#.Key",
            "Tag.#.Value",
        ]
    ),
    call!(
        "DescribeFileSystems",
        Run::Read(shares::describe),
        ["FileSystemId", "CreationToken", "MaxItems", "Marker"]
    ),
    call!(
        "DeleteFileSystem",
        Run::Write(shares::delete),
        ["FileSystemId!"]
    ),
    call!(
        "PutLifecycleConfiguration",
        Run::Write(shares::put_policies),
        [
            "FileSystemId!",
            "LifecyclePolicies.#.TransitionToIA",
            "LifecyclePolicies.#.TransitionToArchive",
            "LifecyclePolicies.#.TransitionToPrimaryStorageClass",
        ]
    ),
    call!(
        "DescribeLifecycleConfiguration",
        Run::Read(shares::policies),
        ["FileSystemId!"]
    ),
    call!(
        "CreateMountTarget",
        Run::Write(shares::create_target),
        ["FileSystemId!", "SubnetId!", "SecurityGroups.#"]
    ),
    call!(
        "DescribeMountTargets",
        Run::Read(shares::describe_targets),
        ["FileSystemId", "MountTargetId", "MaxItems", "Marker"]
    ),
    call!(
        "DescribeMountTargetSecurityGroups",
        Run::Read(shares::target_groups),
        ["MountTargetId!"]
    ),
    call!(
        "DeleteMountTarget",
        Run::Write(shares::delete_target),
        ["MountTargetId!"]
    ),
    call!("GetCallerIdentity", Run::Read(account::caller), []),
    call!(
        "GetSessionToken",
        Run::Read(account::session_token),
        ["DurationSeconds"]
    ),
    call!(
        "SendSSHPublicKey",
        Run::Read(account::send_ssh_key),
        [
            "InstanceId!",
            "InstanceOSUser!",
            "SSHPublicKey!",
            "AvailabilityZone"
        ]
    ),
    call!("GetProducts", Run::Read(prices::products), ["Body!"]),
    call!(
        "GetServiceQuota",
        Run::Read(quotas::get),
        ["ServiceCode!", "QuotaCode!"]
    ),
];
