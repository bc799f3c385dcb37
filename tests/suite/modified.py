"""Volumes whose size and speed are changed, printed as an EC2 answers."""

import time

import boto3
from botocore.exceptions import ClientError

ec2 = boto3.client("ec2")


def refused(what, **arguments):
    try:
        ec2.modify_volume(**arguments)
    except ClientError as error:
        print(what, error.response["Error"]["Code"])
    else:
        print(what, "is done")


def shape():
    found = ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
    return found["Size"], found["VolumeType"]


def completed():
    for _ in range(600):
        found = ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
        if found[-1]["ModificationState"] == "completed":
            return found[-1]
        time.sleep(0.05)


def is_modified():
    try:
        return bool(ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"])
    except ClientError as error:
        assert error.response["Error"]["Code"] == "InvalidVolumeModification.NotFound", error
        return False


made = ec2.create_volume(AvailabilityZone="us-east-1a", Size=8, VolumeType="gp3")
volume = made["VolumeId"]
ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 1})
print("made", shape())

refused("a dry run", VolumeId=volume, Size=8, DryRun=True)
print("then", shape(), is_modified())

asked = ec2.modify_volume(VolumeId=volume, Size=16)["VolumeModification"]
print("asked", asked["VolumeId"] == volume, asked["OriginalSize"], asked["TargetSize"])
done = completed()
print("done", done["OriginalSize"], done["TargetSize"], done["Progress"])
print("then", shape())

asked = ec2.modify_volume(VolumeId=volume, VolumeType="gp2")["VolumeModification"]
print("another type", asked["OriginalVolumeType"], asked["TargetVolumeType"])
completed()
print("then", shape())

refused("smaller", VolumeId=volume, Size=4)
refused("nothing", VolumeId="vol-0123456789abcdef0", Size=4)
