"""Elastic IP addresses and what has them, printed as an EC2 answers."""

import boto3
from botocore.exceptions import ClientError

ec2 = boto3.client("ec2")


def refused(what, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        print(what, error.response["Error"]["Code"])
    else:
        print(what, "is done")


def launched():
    image = ec2.describe_images()["Images"][0]["ImageId"]
    ran = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, InstanceType="t3.micro")
    id = ran["Instances"][0]["InstanceId"]
    ec2.get_waiter("instance_running").wait(InstanceIds=[id], WaiterConfig={"Delay": 1})
    return id


def public(instance):
    found = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    return found.get("PublicIpAddress")


def shown(address):
    [found] = ec2.describe_addresses(AllocationIds=[address])["Addresses"]
    names = {one: "one", two: "two"}
    tags = sorted((tag["Key"], tag["Value"]) for tag in found.get("Tags", []))
    held = found.get("AssociationId", "").partition("-")[0]
    return names.get(found.get("InstanceId") or None), held, found["Domain"], tags


one, two = launched(), launched()
tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "Name", "Value": "class"}]}]
made = ec2.allocate_address(Domain="vpc", TagSpecifications=tags)
id, ip = made["AllocationId"], made["PublicIp"]
print(id.partition("-")[0], shown(id))
own = public(one)
print("of its own", own not in (None, ip))

associate = ec2.associate_address
first = associate(AllocationId=id, InstanceId=one)["AssociationId"]
print("one has it", public(one) == ip, shown(id))
for name, value in [("instance-id", one), ("public-ip", ip), ("association-id", first)]:
    found = ec2.describe_addresses(Filters=[{"Name": name, "Values": [value]}])["Addresses"]
    print("by", name, [it["AllocationId"] for it in found] == [id])
refused("taken", associate, AllocationId=id, InstanceId=two, AllowReassociation=False)
associate(AllocationId=id, InstanceId=two, AllowReassociation=True)
print("two has it", public(two) == ip, public(one) != ip, shown(id))
[held] = ec2.describe_addresses(AllocationIds=[id])["Addresses"]
ec2.disassociate_address(AssociationId=held["AssociationId"])
print("nobody has it", public(two) != ip, shown(id))

other = ec2.allocate_address(Domain="vpc")["AllocationId"]
associate(AllocationId=other, InstanceId=two)
refused("released in use", ec2.release_address, AllocationId=other)
associate(AllocationId=id, InstanceId=one)
ec2.terminate_instances(InstanceIds=[one])
ec2.get_waiter("instance_terminated").wait(InstanceIds=[one], WaiterConfig={"Delay": 1})
print("its instance is gone", shown(id))

none = "eipalloc-0123456789abcdef0"
refused("no such address", ec2.describe_addresses, AllocationIds=[none])
refused("of no such address", associate, AllocationId=none, InstanceId=two)
refused("with no such instance", associate, AllocationId=id, InstanceId="i-0123456789abcdef0")
ec2.release_address(AllocationId=id)
refused("released twice", ec2.release_address, AllocationId=id)
ec2.terminate_instances(InstanceIds=[two])
