//! Instances with roles: credentials from the metadata service, the API inside, and containers on them.

mod wide;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

use xdrive::local::Local;
use xdrive::local::plane::{API_URL, Up};
use xdrive::local::wire::{Params, Xml};

use super::machines::Host;
use crate::local_api::{call, text};
use crate::session::site::Site;
use harness::cloud::open;
use harness::home::PATH;
use harness::python;

/// The roles that instances here may have, of which one has a policy.
const SETTINGS: &str = "enforce-groups = false\n[instance-profiles.lab]\npolicy = \"lab.json\"\n[instance-profiles.free]\n";

const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "ec2:DescribeInst*", "Resource": "*"}
]}"#;

/// Who it is, how many instances there are, and the refusal of what no policy allows.
const ASKS: &str = r#"
import boto3
from botocore.exceptions import BotoCoreError, ClientError
try:
    print(boto3.client("sts").get_caller_identity()["Arn"])
    ec2 = boto3.client("ec2")
    print(sum(len(of["Instances"]) for of in ec2.describe_instances()["Reservations"]))
    ec2.describe_volumes()
except ClientError as error:
    print(error.response["Error"]["Code"])
except BotoCoreError as error:
    print(error)
"#;

/// A site whose instances have roles.
fn site_with_roles() -> Site {
    let site = Site::machines();
    fs::write(site.dir().join("settings.toml"), SETTINGS).unwrap();
    fs::write(site.dir().join("lab.json"), POLICY).unwrap();
    site
}

/// Launches an instance that lets this test in, with this profile; returns when it does.
fn launch(site: &Site, local: &Local, profile: Option<&str>, hop_limit: &str) -> Host {
    let user_data = aws_smithy_types::base64::encode(site.machine("").user_data);
    let mut order = vec![
        ("ImageId", crate::local_api::IMAGE),
        ("InstanceType", "t3.micro"),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("UserData", user_data.as_str()),
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpPutResponseHopLimit", hop_limit),
    ];
    order.extend(profile.map(|profile| ("IamInstanceProfile.Name", profile)));
    let made = call(local, "RunInstances", &order).unwrap();
    let up = Up {
        address: text(&made, "privateIpAddress").parse().unwrap(),
        supervisor: 0,
        started: 0,
    };
    site.reach(text(&made, "instanceId"), up)
}

/// Runs a program in the network of an instance, with nothing but how the API is found there.
fn run_in(host: &Host, words: &[&str], variables: &BTreeMap<&str, &str>) -> Output {
    let network = format!("--net=/run/netns/xd-{}", &host.id[host.id.len() - 8..]);
    Command::new("nsenter")
        .args([&network, "--"])
        .args(words)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/nowhere")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .envs(variables)
        .output()
        .unwrap()
}

/// Runs a script with boto3 in the network of an instance; returns its output.
fn boto(host: &Host, script: &str) -> String {
    let python = python("boto3");
    let words = [python.to_str().unwrap(), "-c", script];
    let output = run_in(
        host,
        &words,
        &BTreeMap::from([("AWS_ENDPOINT_URL", API_URL)]),
    );
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn describe(local: &Local, id: &str) -> Xml {
    let params = Params::new([("InstanceId.1".to_owned(), id.to_owned())]);
    local.call("DescribeInstances", &params).unwrap()
}

#[test]
#[ignore = "needs root (namespaces), the machine tree and boto3"]
fn an_instance_calls_the_api_by_its_role_and_within_its_policy() {
    let site = site_with_roles();
    let local = open(&site.dir()).unwrap();
    let host = launch(&site, &local, Some("lab"), "1");
    let arn = format!("arn:aws:sts::000000000000:assumed-role/lab/{}", host.id);
    let allowed = format!("{arn}\n1\nUnauthorizedOperation\n");
    assert_eq!(boto(&host, ASKS), allowed);
    // A policy that is changed holds from the next connection on.
    let more = POLICY.replace("Inst*", "*");
    fs::write(site.dir().join("lab.json"), more).unwrap();
    assert_eq!(boto(&host, ASKS), format!("{arn}\n1\n"));

    let without = launch(&site, &local, None, "1");
    assert_eq!(boto(&without, ASKS), "Unable to locate credentials\n");
    let token = without.run(
        "curl -sS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
         http://169.254.169.254/latest/api/token",
    );
    let asked = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' -H 'X-aws-ec2-metadata-token: {token}' \
         http://169.254.169.254/latest/meta-data/"
    );
    assert_eq!(without.run(&format!("{asked}iam/info")), "404");
    let address = without.run(&asked.replace("-o /dev/null -w '%{http_code}'", ""));
    assert!(
        address.lines().any(|line| line == "public-ipv4"),
        "{address}"
    );
}

/// Asks the metadata service for a token, and for anything without one; then the API, unsigned.
const IN_A_CONTAINER: &str = r#"
from urllib.request import Request, urlopen
from urllib.error import HTTPError
IMDS = "http://169.254.169.254/latest/"
TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
for asked in (
    Request(IMDS + "api/token", method="PUT", headers=TTL),
    Request(IMDS + "meta-data/"),
    Request("http://169.254.169.250/?Action=DescribeVolumes&Version=2016-11-15"),
):
    try:
        print(len(urlopen(asked, timeout=3).read()))
    except TimeoutError:
        print("silent")
    except HTTPError as error:
        print(error.code)
"#;

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_container_gets_no_token_over_one_hop_and_gets_one_over_two() {
    let site = site_with_roles();
    let local = open(&site.dir()).unwrap();
    for (hop_limit, answers) in [("1", "silent\n401\n403"), ("2", "64\n401\n403")] {
        let host = launch(&site, &local, Some("lab"), hop_limit);
        let script = IN_A_CONTAINER.replace('"', "'");
        let from_itself = host.run(&format!("python3 -c \"{script}\""));
        assert_eq!(from_itself, "64\n401\n403");
        // An image without files, and a Python that the host lends it.
        host.run(
            "systemctl start docker.service && mkdir /tmp/empty && \
             tar -cC /tmp/empty . | docker import - empty",
        );
        let from_container = host.run(&format!(
            "docker run --rm -v /usr:/usr:ro -v /lib:/lib:ro -v /lib64:/lib64:ro empty \
             /usr/bin/python3 -c \"{script}\""
        ));
        assert_eq!(from_container, answers, "{hop_limit}");
        host.run("systemctl stop docker.socket docker.service");
    }
}
