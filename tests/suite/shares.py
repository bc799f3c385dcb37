"""The life of a file system and its mount targets, printed as an EFS answers."""

import time

import boto3
from botocore.exceptions import ClientError

efs, ec2 = boto3.client("efs"), boto3.client("ec2")


def refused(what, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        answer = error.response
        print(what, answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"])
    else:
        print(what, "is done")


def until(what, is_so):
    for _ in range(500):
        if is_so():
            return print(what)
        time.sleep(0.02)
    print("never", what)


def shown(id):
    [found] = efs.describe_file_systems(FileSystemId=id)["FileSystems"]
    return found


def state(id):
    return shown(id)["LifeCycleState"]


tags = [{"Key": "Name", "Value": "data"}, {"Key": "a b", "Value": "c"}]
made = efs.create_file_system(CreationToken="one", Encrypted=True, Tags=tags)
id = made["FileSystemId"]
until("it is available", lambda: state(id) == "available")
found = shown(id)
print(found["Name"], found["Encrypted"], found["ThroughputMode"], found["PerformanceMode"], found["CreationToken"])
print(sorted((tag["Key"], tag["Value"]) for tag in found["Tags"]), found["NumberOfMountTargets"])
print("SizeInBytes" in found, found["FileSystemArn"].split(":")[2], found["FileSystemArn"].endswith(f"file-system/{id}"))
refused("the token again", efs.create_file_system, CreationToken="one")
other = efs.create_file_system(CreationToken="two")["FileSystemId"]
until("another one is available", lambda: state(other) == "available")
print("encrypted", shown(other)["Encrypted"])
[by_token] = efs.describe_file_systems(CreationToken="two")["FileSystems"]
print("by its token", by_token["FileSystemId"] == other)
pages = efs.get_paginator("describe_file_systems").paginate(PaginationConfig={"PageSize": 1})
print("in pages", sorted(it["CreationToken"] for page in pages for it in page["FileSystems"]))
refused("an unknown one", efs.describe_file_systems, FileSystemId="fs-0123456789abcdef0")

policies = [{"TransitionToIA": "AFTER_30_DAYS"}, {"TransitionToPrimaryStorageClass": "AFTER_1_ACCESS"}]
efs.put_lifecycle_configuration(FileSystemId=id, LifecyclePolicies=policies)
print(efs.describe_lifecycle_configuration(FileSystemId=id)["LifecyclePolicies"] == policies)

subnets = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
subnets = sorted(subnets, key=lambda subnet: subnet["AvailabilityZone"])
group = ec2.create_security_group(GroupName="nfs", Description="nfs")["GroupId"]
first, second = (subnet["SubnetId"] for subnet in subnets[:2])


def target(subnet, of=id):
    return efs.create_mount_target(FileSystemId=of, SubnetId=subnet, SecurityGroups=[group])["MountTargetId"]


def targets(of=id):
    return {it["MountTargetId"]: it for it in efs.describe_mount_targets(FileSystemId=of)["MountTargets"]}


one = target(first)
until("a target is available", lambda: targets()[one]["LifeCycleState"] == "available")
it = targets()[one]
print(it["SubnetId"] == first, it["VpcId"] == subnets[0]["VpcId"], it["AvailabilityZoneName"], "IpAddress" in it)
print(efs.describe_mount_target_security_groups(MountTargetId=one)["SecurityGroups"] == [group])
refused("a second one in its zone", efs.create_mount_target, FileSystemId=id, SubnetId=first)
refused("an unknown subnet", efs.create_mount_target, FileSystemId=id, SubnetId="subnet-0123456789abcdef0")
refused(
    "an unknown group",
    efs.create_mount_target,
    FileSystemId=id,
    SubnetId=second,
    SecurityGroups=["sg-0123456789abcdef0"],
)
refused("of an unknown one", efs.create_mount_target, FileSystemId="fs-0123456789abcdef0", SubnetId=second)
two = target(second)
until("both are there", lambda: len(targets()) == 2 and shown(id)["NumberOfMountTargets"] == 2)
print("another address", targets()[one]["IpAddress"] != targets()[two]["IpAddress"])
[by_id] = efs.describe_mount_targets(MountTargetId=two)["MountTargets"]
print("by its id", by_id["FileSystemId"] == id)
refused("neither is named", efs.describe_mount_targets)
refused("the group is used", ec2.delete_security_group, GroupId=group)
refused("it is used", efs.delete_file_system, FileSystemId=id)
for it in one, two:
    efs.delete_mount_target(MountTargetId=it)
until("no target is left", lambda: not targets())
refused("a target that is gone", efs.delete_mount_target, MountTargetId=one)
refused("its groups", efs.describe_mount_target_security_groups, MountTargetId=one)
for it in id, other:
    efs.delete_file_system(FileSystemId=it)
until("nothing is left", lambda: not efs.describe_file_systems()["FileSystems"])
refused("what is gone", efs.delete_file_system, FileSystemId=id)
refused("its targets", efs.describe_mount_targets, FileSystemId=id)
again = efs.create_file_system(CreationToken="one")["FileSystemId"]
print("the token once more", again != id)
