"""One life of a drive through boto3, which nobody here wrote, against `xdrive local serve`.

Where it connects comes from the environment alone, as `xdrive local env` prints it. Any answer
that boto3 cannot read, any waiter that never ends, any unexpected error fails it.
"""

import base64
import hashlib
import time

import boto3
from botocore.exceptions import ClientError

TAGS = [{"Key": "xdrive:drive", "Value": "demo"}, {"Key": "odd", "Value": "<&> 'ü' \\ 🦀"}]
IMAGE = "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
DEVICE = "/dev/sdf"
SOON = {"Delay": 0.1, "MaxAttempts": 600}
OURS = [{"Name": "tag:xdrive:drive", "Values": ["demo"]}]

ec2 = boto3.client("ec2")


def main():
    assert boto3.client("sts").get_caller_identity()["Account"].isdigit()
    zone = look_around()
    for_a_while()
    instance = launch(zone)
    volume = make_volume(zone)
    ec2.attach_volume(InstanceId=instance, VolumeId=volume, Device=DEVICE)
    wait("volume_in_use", VolumeIds=[volume])
    refused("VolumeInUse", ec2.delete_volume, VolumeId=volume)
    send_key(instance, zone)
    snapshot = save(volume, instance)
    read_blocks(snapshot)
    experiment()
    restore(snapshot, zone)
    count_pages(zone)
    reserve(zone)
    end(instance, snapshot)
    print("life: lived")


def reserve(zone):
    """A reservation has one place, which an instance takes; and zones have scores."""
    of = {"InstanceType": "t3.micro", "AvailabilityZone": zone, "InstanceMatchCriteria": "targeted"}
    made = ec2.create_capacity_reservation(InstancePlatform="Linux/UNIX", InstanceCount=1, **of)
    id = made["CapacityReservation"]["CapacityReservationId"]
    order = {
        "ImageId": IMAGE,
        "InstanceType": "t3.micro",
        "MinCount": 1,
        "MaxCount": 1,
        "Placement": {"AvailabilityZone": zone},
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": id}
        },
    }
    [instance] = ec2.run_instances(**order)["Instances"]
    assert instance["CapacityReservationId"] == id
    [found] = ec2.describe_capacity_reservations(CapacityReservationIds=[id])["CapacityReservations"]
    assert (found["State"], found["AvailableInstanceCount"]) == ("active", 0), found
    refused("ReservationCapacityExceeded", ec2.run_instances, **order)
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    assert ec2.cancel_capacity_reservation(CapacityReservationId=id)["Return"]
    types = ["c5.large", "m5.large", "r5.large"]
    scores = ec2.get_spot_placement_scores(
        InstanceTypes=types, TargetCapacity=1, SingleAvailabilityZone=True
    )["SpotPlacementScores"]
    assert all(1 <= it["Score"] <= 10 and it["AvailabilityZoneId"] for it in scores), scores


def for_a_while():
    """Temporary credentials of the same caller, which make no others."""
    given = boto3.client("sts").get_session_token(DurationSeconds=900)["Credentials"]
    session = boto3.Session(
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )
    sts = session.client("sts")
    arns = [of.get_caller_identity()["Arn"] for of in (sts, boto3.client("sts"))]
    assert arns[0] == arns[1], arns
    assert session.client("ec2").describe_regions()["Regions"]
    refused("AccessDenied", sts.get_session_token)


def read_blocks(snapshot):
    """What was written is listed and comes with its checksum; what was not cannot be asked for."""
    ebs = boto3.client("ebs")
    listed = ebs.list_snapshot_blocks(SnapshotId=snapshot)
    assert listed["BlockSize"] == 512 << 10 and listed["VolumeSize"] > 0, listed
    for block in listed["Blocks"][:2]:
        answer = ebs.get_snapshot_block(SnapshotId=snapshot, **block)
        data = answer["BlockData"].read()
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assert (len(data), digest) == (answer["DataLength"], answer["Checksum"]), block
    with_wrong_token = dict(BlockIndex=0, BlockToken="AAAA")
    try:
        ebs.get_snapshot_block(SnapshotId=snapshot, **with_wrong_token)
    except ebs.exceptions.ValidationException as error:
        assert error.response["Reason"] == "INVALID_BLOCK_TOKEN", error.response
    else:
        raise AssertionError("a block was given away for a wrong token")


def experiment():
    """An experiment on an instance that is none: made, started, asked after, and its template gone."""
    fis = boto3.client("fis")
    own = "arn:aws:ec2:us-east-1:123456789012:instance/i-0123456789abcdef0"
    asked = dict(
        description="nothing is there",
        roleArn="arn:aws:iam::123456789012:role/fis",
        stopConditions=[{"source": "none"}],
        targets={
            "own": {
                "resourceType": "aws:ec2:spot-instance",
                "resourceArns": [own],
                "selectionMode": "ALL",
            }
        },
        actions={
            "interrupt": {
                "actionId": "aws:ec2:send-spot-instance-interruptions",
                "parameters": {"durationBeforeInterruption": "PT2M"},
                "targets": {"SpotInstances": "own"},
            }
        },
        tags={"xdrive:drive": "demo"},
    )
    template = fis.create_experiment_template(**asked)["experimentTemplate"]
    assert {name: template[name] for name in asked} == asked, template
    started = fis.start_experiment(experimentTemplateId=template["id"])["experiment"]
    assert started["experimentTemplateId"] == template["id"], started
    fis.delete_experiment_template(id=template["id"])
    seen = fis.get_experiment(id=started["id"])["experiment"]
    assert seen["state"]["status"] == "failed", seen
    assert seen["targets"]["own"]["resourceArns"] == [own], seen
    for call, words in (
        (fis.delete_experiment_template, dict(id=template["id"])),
        (fis.start_experiment, dict(experimentTemplateId=template["id"])),
    ):
        try:
            call(**words)
        except fis.exceptions.ResourceNotFoundException:
            continue
        raise AssertionError("a template was there that was deleted")
    try:
        fis.create_experiment_template(**asked | {"stopConditions": [{"source": "other"}]})
    except fis.exceptions.ValidationException:
        return
    raise AssertionError("a stop condition was ignored")


def look_around():
    """Regions, zones, types, network, images: what a tool asks before it launches."""
    assert ec2.meta.region_name in [r["RegionName"] for r in ec2.describe_regions()["Regions"]]
    zones = [z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]]
    assert len(zones) > 1, zones
    described = ec2.describe_instance_types(InstanceTypes=["t3.medium"])["InstanceTypes"][0]
    assert described["VCpuInfo"]["DefaultVCpus"] == 2, described
    vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])
    assert {s["AvailabilityZone"] for s in subnets["Subnets"]} == set(zones)
    assert ec2.describe_images(Owners=["self", "amazon"])["Images"]
    prices = ec2.describe_spot_price_history(InstanceTypes=["t3.medium"])["SpotPriceHistory"]
    assert all(float(price["SpotPrice"]) > 0 for price in prices) and prices
    return zones[0]


def launch(zone):
    order = dict(
        ImageId=IMAGE,
        InstanceType="t3.medium",
        MinCount=1,
        MaxCount=1,
        Placement={"AvailabilityZone": zone},
        UserData="#!/bin/sh\necho hello\n",
        ClientToken="life",
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        InstanceMarketOptions={
            "MarketType": "spot",
            "SpotOptions": {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        },
        TagSpecifications=[
            {"ResourceType": kind, "Tags": TAGS}
            for kind in ("instance", "volume", "spot-instances-request")
        ],
    )
    refused("DryRunOperation", ec2.run_instances, DryRun=True, **order)
    instance = ec2.run_instances(**order)["Instances"][0]
    assert instance["State"]["Name"] == "pending", instance
    again = ec2.run_instances(**order)["Instances"][0]
    assert again["InstanceId"] == instance["InstanceId"], "the token was not honoured"
    wait("instance_running", InstanceIds=[instance["InstanceId"]])
    [found] = [i for r in pages("describe_instances", "Reservations") for i in r["Instances"]]
    assert sorted(map(key, found["Tags"])) == sorted(map(key, TAGS)), found["Tags"]
    assert found["InstanceLifecycle"] == "spot" and found["PublicIpAddress"], found
    request = ec2.describe_spot_instance_requests()["SpotInstanceRequests"][0]
    assert request["InstanceId"] == instance["InstanceId"], request
    assert "Output" in ec2.get_console_output(InstanceId=instance["InstanceId"])
    return instance["InstanceId"]


def make_volume(zone, **more):
    volume = ec2.create_volume(
        AvailabilityZone=zone,
        VolumeType="gp3",
        Encrypted=True,
        TagSpecifications=[{"ResourceType": "volume", "Tags": TAGS}],
        **({"Size": 1} | more),
    )
    assert volume["State"] == "creating" and volume["Encrypted"], volume
    wait("volume_available", VolumeIds=[volume["VolumeId"]])
    return volume["VolumeId"]


def send_key(instance, zone):
    connect = boto3.client("ec2-instance-connect")
    order = dict(
        InstanceOSUser="ec2-user",
        SSHPublicKey="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Vm5CBgaJbJ0Rdi0jAy0lDBhRVPAXhCRpIDBlJzZ4u",
        AvailabilityZone=zone,
    )
    assert connect.send_ssh_public_key(InstanceId=instance, **order)["Success"] is True
    missing = "i-0123456789abcdef0"
    refused(
        "EC2InstanceNotFoundException", connect.send_ssh_public_key, InstanceId=missing, **order
    )


def save(volume, instance):
    snapshot = ec2.create_snapshot(
        VolumeId=volume, TagSpecifications=[{"ResourceType": "snapshot", "Tags": TAGS}]
    )
    assert snapshot["State"] == "pending" and snapshot["VolumeSize"] == 1, snapshot
    snapshot = snapshot["SnapshotId"]
    wait("snapshot_completed", SnapshotIds=[snapshot], OwnerIds=["self"])
    ec2.detach_volume(VolumeId=volume, InstanceId=instance)
    wait("volume_available", VolumeIds=[volume])
    ec2.delete_volume(VolumeId=volume)
    wait("volume_deleted", VolumeIds=[volume])
    refused("InvalidVolume.NotFound", ec2.delete_volume, VolumeId=volume)
    return snapshot


def restore(snapshot, zone):
    refused("InvalidParameterValue", ec2.create_volume, AvailabilityZone=zone, Size=0)
    restored = make_volume(zone, SnapshotId=snapshot, Size=2)
    [volume] = ec2.describe_volumes(VolumeIds=[restored])["Volumes"]
    assert (volume["SnapshotId"], volume["Size"]) == (snapshot, 2), volume
    ec2.create_tags(Resources=[restored], Tags=[{"Key": "new", "Value": ""}])
    ec2.delete_tags(Resources=[restored], Tags=[{"Key": "odd"}])
    where = [{"Name": "resource-id", "Values": [restored]}]
    tags = ec2.describe_tags(Filters=where)["Tags"]
    assert {tag["Key"] for tag in tags} == {"xdrive:drive", "new"}, tags
    ec2.delete_volume(VolumeId=restored)
    wait("volume_deleted", VolumeIds=[restored])


def count_pages(zone):
    made = {
        ec2.create_volume(AvailabilityZone=zone, Size=1, TagSpecifications=[
            {"ResourceType": "volume", "Tags": [{"Key": "page", "Value": str(number)}]}
        ])["VolumeId"]
        for number in range(12)
    }
    where = [{"Name": "tag-key", "Values": ["page"]}]
    seen = [
        [volume["VolumeId"] for volume in page["Volumes"]]
        for page in ec2.get_paginator("describe_volumes").paginate(
            Filters=where, PaginationConfig={"PageSize": 5}
        )
    ]
    assert [len(page) for page in seen] == [5, 5, 2], seen
    assert {volume for page in seen for volume in page} == made
    wait("volume_available", VolumeIds=sorted(made))
    for volume in made:
        ec2.delete_volume(VolumeId=volume)
    wait("volume_deleted", VolumeIds=sorted(made))


def end(instance, snapshot):
    ec2.terminate_instances(InstanceIds=[instance])
    wait("instance_terminated", InstanceIds=[instance])
    ec2.delete_snapshot(SnapshotId=snapshot)
    refused("InvalidSnapshot.NotFound", ec2.delete_snapshot, SnapshotId=snapshot)
    gone("describe_volumes", "Volumes")
    gone("describe_snapshots", "Snapshots", OwnerIds=["self"])
    refused("InvalidAction", ec2.describe_fleets)


def pages(call, kind, **more):
    return [
        thing
        for page in ec2.get_paginator(call).paginate(Filters=OURS, **more)
        for thing in page[kind]
    ]


def gone(call, kind, **more):
    """Deleted things linger in lists for a moment, and have no waiter there."""
    deadline = time.monotonic() + 60
    while left := pages(call, kind, **more):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def wait(waiter, **what):
    ec2.get_waiter(waiter).wait(WaiterConfig=SOON, **what)


def refused(code, call, **what):
    try:
        call(**what)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error
    else:
        raise AssertionError(f"{call.__name__} was not refused with {code}")


def key(tag):
    return tag["Key"], tag["Value"]


main()
