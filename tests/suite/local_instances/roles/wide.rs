//! Variants of `local_instances::roles`, which `shell/test.sh --all` runs.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use xdrive::cloud::{Cloud, Place, Which};
use xdrive::config::Paths;

use super::{boto, describe, launch, run_in, site_with_roles};
use crate::local_api::{find, text};
use crate::local_instances::machines::until;
use harness::cloud::open;
use harness::home::program;

/// Launches another instance with the profile of this one, and then ends this one.
const LAUNCHES: &str = r#"
import boto3
from urllib.request import Request, urlopen
IMDS = "http://169.254.169.254/latest/"
TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
token = urlopen(Request(IMDS + "api/token", method="PUT", headers=TTL)).read().decode()
own = Request(IMDS + "meta-data/instance-id", headers={"X-aws-ec2-metadata-token": token})
own = urlopen(own).read().decode()
ec2 = boto3.client("ec2")
IMAGE = "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
made = ec2.run_instances(ImageId=IMAGE, InstanceType="t3.micro", MinCount=1, MaxCount=1)
print(made["Instances"][0]["InstanceId"])
ec2.terminate_instances(InstanceIds=[own])
"#;

#[test]
#[ignore = "needs root (namespaces), the machine tree and boto3"]
fn an_instance_that_was_launched_from_another_outlives_it() {
    let site = site_with_roles();
    let local = open(&site.dir()).unwrap();
    let host = launch(&site, &local, Some("free"), "1");
    let made = boto(&host, LAUNCHES).trim_end().to_owned();
    let state = |id: &str| {
        let seen = describe(&local, id);
        text(find(&seen, "instanceState").unwrap(), "name")
    };
    until("the end of the first", || state(&host.id) == "terminated");
    until("the second runs", || state(&made) == "running");
    assert!(local.has_booted(&made).unwrap());
    let console = site.plane.console(&made).unwrap();
    assert!(!String::from_utf8_lossy(&console).contains("Powering off"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root (namespaces), the machine tree and boto3"]
async fn the_printed_policy_is_what_a_role_is_held_to() {
    let site = site_with_roles();
    let home = tempfile::tempdir().unwrap();
    let hold_to = |words: &[&str]| {
        let mut printing = Command::new(program());
        printing
            .args(["--local", "--local-dir"])
            .arg(site.dir())
            .args(words)
            .env("HOME", home.path());
        let printed = printing.output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
        fs::write(site.dir().join("lab.json"), printed.stdout).unwrap();
    };
    hold_to(&["policy"]);
    let paths = Paths {
        config: home.path().join("config.toml"),
        ..Paths::find(Some(site.dir())).unwrap()
    };
    let cloud = Cloud::open(&Which::Local, &paths).await.unwrap();
    assert_eq!(cloud.place, Place::Folder);

    let local = open(&site.dir()).unwrap();
    let host = launch(&site, &local, Some("lab"), "1");
    let xdrive = program();
    let xdrive = xdrive.to_str().unwrap();
    let inside: BTreeMap<&str, &str> = cloud.inside.iter().map(|(k, v)| (*k, *v)).collect();
    for words in [&["list"][..], &["prices", "t3.micro"], &["gc"]] {
        let output = run_in(&host, &[&[xdrive], words].concat(), &inside);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    let outside = "
import boto3
ec2 = boto3.client('ec2')
made = ec2.create_volume(Size=1, AvailabilityZone='us-east-1a', TagSpecifications=[
    dict(ResourceType='volume', Tags=[dict(Key='xdrive:drive', Value='demo')])])
print(made['State'])
for call in (ec2.describe_availability_zones, ec2.describe_regions):
    try:
        call()
    except Exception as error:
        print(error.response['Error']['Code'])
";
    assert_eq!(
        boto(&host, outside),
        "creating\nUnauthorizedOperation\nUnauthorizedOperation\n"
    );

    // Who tends clears away no groups.
    let outside = "
import boto3
ec2 = boto3.client('ec2')
group = ec2.create_security_group(GroupName='g', Description='g', TagSpecifications=[
    dict(ResourceType='security-group', Tags=[dict(Key='xdrive:owner', Value='me')])])
try:
    ec2.delete_security_group(GroupId=group['GroupId'])
except Exception as error:
    print(error.response['Error']['Code'])
";
    hold_to(&["policy", "--tend"]);
    let tended = run_in(&host, &[xdrive, "tend", "--once"], &inside);
    assert!(tended.status.success(), "{tended:?}");
    assert_eq!(boto(&host, outside), "UnauthorizedOperation\n");
}
