//! EC2's refusals, with their codes and messages.

use super::{IMAGE, pass, text};
use crate::folder::Folder;

/// Instance, volume and snapshot by the names that the table calls them.
struct Cast {
    folder: Folder,
    names: Vec<(&'static str, String)>,
}

impl Cast {
    /// RUNNING and PENDING instances, a TERMINATED one; volumes FREE, HELD (by RUNNING), CREATING
    /// and AWAY (in another zone); snapshots DONE and COPYING (both of FREE).
    async fn on_stage() -> Self {
        let folder = Folder::aws();
        let running = folder.launch();
        let terminated = folder.launch();
        let (free, held) = (folder.volume(), folder.volume());
        let away = folder.call(
            "CreateVolume",
            &[("AvailabilityZone", "us-east-1b"), ("Size", "1")],
        );
        pass(20.0).await;
        folder.call("TerminateInstances", &[("InstanceId.1", &terminated)]);
        folder.call(
            "AttachVolume",
            &[
                ("VolumeId", &held),
                ("InstanceId", &running),
                ("Device", "/dev/sdf"),
            ],
        );
        let done = folder.call("CreateSnapshot", &[("VolumeId", &free)]);
        pass(60.0).await;
        let copying = folder.call("CreateSnapshot", &[("VolumeId", &free)]);
        let names = vec![
            ("RUNNING", running),
            ("TERMINATED", terminated),
            ("FREE", free),
            ("HELD", held),
            ("AWAY", text(&away, "volumeId")),
            ("DONE", text(&done, "snapshotId")),
            ("COPYING", text(&copying, "snapshotId")),
            ("CREATING", folder.volume()),
            ("PENDING", folder.launch()),
        ];
        Self { folder, names }
    }

    /// Makes the call in `line`, `Action Name=VALUE …`; the refusal's code and message.
    #[track_caller]
    fn refused(&self, line: &str) -> (String, String) {
        let mut words = line.split(' ');
        let action = words.next().unwrap();
        let params: Vec<(String, String)> = words
            .map(|word| {
                let (name, value) = word.split_once('=').unwrap();
                let known = self.names.iter().find(|(known, _)| *known == value);
                let value = known.map_or(value, |(_, id)| id.as_str());
                (name.to_owned(), value.replace("IMAGE", IMAGE))
            })
            .collect();
        let params: Vec<(&str, &str)> = params
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        match self.folder.try_call(action, &params) {
            Ok(answer) => panic!("{line} was carried out: {answer:?}"),
            Err(error) => (error.code, error.message),
        }
    }
}

/// Calls that are refused, by the names of the cast, and the codes of the refusals.
const REFUSALS: &[(&str, &str)] = &[
    ("StopInstances InstanceId.1=RUNNING", "InvalidAction"),
    ("DescribeVolumes Verbose=true", "UnknownParameter"),
    ("DeleteVolume", "MissingParameter"),
    (
        "DeleteVolume VolumeId=vol-00000000000000009",
        "InvalidVolume.NotFound",
    ),
    ("DeleteVolume VolumeId=HELD", "VolumeInUse"),
    ("DeleteVolume VolumeId=CREATING", "IncorrectState"),
    ("DeleteVolume VolumeId=FREE DryRun=true", "DryRunOperation"),
    (
        "DescribeVolumes VolumeId.1=vol-00000000000000009",
        "InvalidVolume.NotFound",
    ),
    (
        "DescribeVolumes VolumeId.1=nonsense",
        "InvalidParameterValue",
    ),
    (
        "DescribeVolumes Filter.1.Name=colour Filter.1.Value.1=red",
        "InvalidParameterValue",
    ),
    (
        "DescribeVolumes Filter.1.Name=status",
        "InvalidParameterValue",
    ),
    ("DescribeVolumes MaxResults=2", "InvalidParameterValue"),
    (
        "DescribeVolumes MaxResults=9 VolumeId.1=FREE",
        "InvalidParameterCombination",
    ),
    ("DescribeVolumes NextToken=00", "InvalidParameterValue"),
    (
        "DescribeInstances InstanceId.1=i-00000000000000009",
        "InvalidInstanceID.NotFound",
    ),
    (
        "DescribeInstances InstanceId.1=i-9",
        "InvalidInstanceID.Malformed",
    ),
    (
        "DescribeInstances InstanceId.1=FREE",
        "InvalidInstanceID.Malformed",
    ),
    (
        "DescribeSnapshots SnapshotId.1=snap-00000000000000009",
        "InvalidSnapshot.NotFound",
    ),
    (
        "TerminateInstances InstanceId.1=i-00000000000000009",
        "InvalidInstanceID.NotFound",
    ),
    ("TerminateInstances", "MissingParameter"),
    ("RebootInstances", "MissingParameter"),
    (
        "RebootInstances InstanceId.1=RUNNING InstanceId.2=i-00000000000000009",
        "InvalidInstanceID.NotFound",
    ),
    (
        "RebootInstances InstanceId.1=RUNNING InstanceId.2=TERMINATED",
        "IncorrectState",
    ),
    (
        "AttachVolume VolumeId=FREE InstanceId=RUNNING",
        "MissingParameter",
    ),
    (
        "AttachVolume VolumeId=FREE InstanceId=PENDING Device=/dev/sdg",
        "IncorrectState",
    ),
    (
        "AttachVolume VolumeId=FREE InstanceId=TERMINATED Device=/dev/sdg",
        "IncorrectState",
    ),
    (
        "AttachVolume VolumeId=CREATING InstanceId=RUNNING Device=/dev/sdg",
        "IncorrectState",
    ),
    (
        "AttachVolume VolumeId=HELD InstanceId=RUNNING Device=/dev/sdg",
        "VolumeInUse",
    ),
    (
        "AttachVolume VolumeId=FREE InstanceId=RUNNING Device=/dev/sdf",
        "InvalidParameterValue",
    ),
    (
        "AttachVolume VolumeId=FREE InstanceId=RUNNING Device=/dev/vda",
        "InvalidParameterValue",
    ),
    (
        "AttachVolume VolumeId=AWAY InstanceId=RUNNING Device=/dev/sdg",
        "InvalidVolume.ZoneMismatch",
    ),
    ("DetachVolume VolumeId=FREE", "IncorrectState"),
    ("DetachVolume VolumeId=HELD Force=true", "UnknownParameter"),
    (
        "DetachVolume VolumeId=HELD InstanceId=PENDING",
        "InvalidAttachment.NotFound",
    ),
    (
        "DetachVolume VolumeId=HELD Device=/dev/sdz",
        "InvalidAttachment.NotFound",
    ),
    ("CreateVolume Size=8", "MissingParameter"),
    (
        "CreateVolume AvailabilityZone=us-east-1a",
        "MissingParameter",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1x Size=8",
        "InvalidParameterValue",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1a Size=0",
        "InvalidParameterValue",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1a Size=many",
        "InvalidParameterValue",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1a Size=8 Encrypted=maybe",
        "InvalidParameterValue",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1a SnapshotId=COPYING",
        "IncorrectState",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1a SnapshotId=snap-00000000000000009",
        "InvalidSnapshot.NotFound",
    ),
    (
        "CreateVolume AvailabilityZone=us-east-1a Size=8 TagSpecification.1.ResourceType=snapshot",
        "InvalidParameterValue",
    ),
    ("CreateSnapshot VolumeId=CREATING", "IncorrectState"),
    (
        "CreateSnapshot VolumeId=FREE",
        "SnapshotCreationPerVolumeRateExceeded",
    ),
    (
        "DeleteSnapshot SnapshotId=snap-00000000000000009",
        "InvalidSnapshot.NotFound",
    ),
    ("CreateTags ResourceId.1=FREE", "MissingParameter"),
    (
        "CreateTags ResourceId.1=FREE Tag.1.Key=aws:x Tag.1.Value=y",
        "InvalidParameterValue",
    ),
    (
        "CreateTags ResourceId.1=nonsense Tag.1.Key=x Tag.1.Value=y",
        "InvalidID",
    ),
    (
        "CreateTags ResourceId.1=vol-00000000000000009 Tag.1.Key=x",
        "InvalidVolume.NotFound",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=0",
        "InvalidParameterValue",
    ),
    (
        "RunInstances ImageId=ami-00000000000000009 MinCount=1 MaxCount=1",
        "InvalidAMIID.NotFound",
    ),
    (
        "RunInstances ImageId=resolve:ssm:/no/such MinCount=1 MaxCount=1",
        "InvalidParameterValue",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 InstanceType=t3.huge",
        "InvalidParameterValue",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 InstanceType=t4g.micro",
        "Unsupported",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 InstanceType=t3.micro InstanceMarketOptions.MarketType=spot InstanceMarketOptions.SpotOptions.MaxPrice=0.003",
        "SpotMaxPriceTooLow",
    ),
    (
        "DescribeInstanceTypes MaxResults=101",
        "InvalidParameterValue",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 KeyName=mine",
        "InvalidKeyPair.NotFound",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 UserData=!",
        "InvalidUserData.Malformed",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 SubnetId=subnet-00000000000000009",
        "InvalidSubnetID.NotFound",
    ),
    (
        "RunInstances ImageId=IMAGE MinCount=1 MaxCount=1 SecurityGroupId.1=sg-00000000000000009",
        "InvalidGroup.NotFound",
    ),
    (
        "ModifyInstanceAttribute InstanceId=RUNNING",
        "InvalidParameterCombination",
    ),
    (
        "ModifyInstanceAttribute InstanceId=TERMINATED InstanceInitiatedShutdownBehavior.Value=stop",
        "IncorrectInstanceState",
    ),
    (
        "ModifyInstanceAttribute InstanceId=RUNNING BlockDeviceMapping.1.DeviceName=/dev/sdz BlockDeviceMapping.1.Ebs.DeleteOnTermination=true",
        "InvalidInstanceAttributeValue",
    ),
    (
        "CreateSecurityGroup GroupName=default GroupDescription=x",
        "InvalidGroup.Duplicate",
    ),
    ("DeleteSecurityGroup GroupName=default", "CannotDelete"),
    (
        "DeleteSecurityGroup GroupName=nobody",
        "InvalidGroup.NotFound",
    ),
    (
        "DescribeInstanceTypes InstanceType.1=t3.huge",
        "InvalidInstanceType",
    ),
    (
        "SendSSHPublicKey InstanceId=RUNNING InstanceOSUser=ec2-user SSHPublicKey=nonsense",
        "InvalidArgsException",
    ),
    (
        "SendSSHPublicKey InstanceId=RUNNING InstanceOSUser=../root SSHPublicKey=ssh-ed25519",
        "InvalidArgsException",
    ),
];

#[tokio::test(start_paused = true)]
async fn refusals_have_ec2s_codes() {
    let cast = Cast::on_stage().await;
    for (line, code) in REFUSALS {
        let (given, message) = cast.refused(line);
        assert_eq!(given, *code, "{line}: {message}");
        assert!(!message.is_empty(), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_changes_nothing() {
    let cast = Cast::on_stage().await;
    let before = std::fs::read(cast.folder.path("state.json")).unwrap();
    cast.refused("DeleteVolume VolumeId=HELD");
    cast.refused("TerminateInstances InstanceId.1=RUNNING InstanceId.2=i-00000000000000009");
    cast.refused("CreateTags ResourceId.1=FREE ResourceId.2=vol-00000000000000009 Tag.1.Key=x");
    assert_eq!(
        std::fs::read(cast.folder.path("state.json")).unwrap(),
        before
    );
}

#[tokio::test(start_paused = true)]
async fn the_root_disk_cannot_be_detached_while_its_instance_runs() {
    let folder = Folder::aws();
    let id = folder.launch();
    pass(20.0).await;
    let instance = folder.call("DescribeInstances", &[("InstanceId.1", &id)]);
    let root = text(&instance, "volumeId");
    assert_eq!(
        folder.refused("DetachVolume", &[("VolumeId", &root)]),
        "OperationNotPermitted"
    );
    assert_eq!(
        folder.refused("DeleteVolume", &[("VolumeId", &root)]),
        "VolumeInUse"
    );
}

#[tokio::test(start_paused = true)]
async fn one_volume_has_five_pending_snapshots_at_most_and_fifteen_seconds_between_them() {
    let folder = Folder::delayed(xdrive::local::Preset::Fast);
    let volume = folder.volume();
    let params = [("VolumeId", volume.as_str())];
    pass(1.0).await;
    let fast = folder.local.delays();
    assert!(
        fast.completed < fast.between_snapshots * 5,
        "the fast table never reaches the limit"
    );
    for _ in 0..3 {
        folder.call("CreateSnapshot", &params);
        assert_eq!(
            folder.refused("CreateSnapshot", &params),
            "SnapshotCreationPerVolumeRateExceeded"
        );
        pass(fast.between_snapshots.as_secs_f64()).await;
    }
    // Five that stay pending.
    for _ in 0..5 {
        let snapshot = text(&folder.call("CreateSnapshot", &params), "snapshotId");
        folder.local.stall(&snapshot).unwrap();
        pass(1.0).await;
    }
    assert_eq!(
        folder.refused("CreateSnapshot", &params),
        "ConcurrentSnapshotLimitExceeded"
    );
}
