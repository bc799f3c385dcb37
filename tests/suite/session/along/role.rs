//! The role of an instance, for programs in its container: in a session's command, in a run that was left,
//! and in that run's next try.

use std::fs;
use std::process::Command;

use rustix::process::{Signal, kill_process};

use super::{TOKEN, of_aws, process};
use crate::session::connection_lost::recorded;
use crate::session::site::{SESSION, Site};
use harness::{eventually_within, python};

/// The last word of the run's command.
const LAST: &str = "4714.25";

const URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

/// Who it is, what it may and may not do, by the chain that every SDK has; the answers to other tokens and
/// paths; and whether the metadata service gives a token.
const ASKS: &str = r#"
import boto3, json, os, urllib.error, urllib.request
from botocore.exceptions import ClientError
print(boto3.client("sts").get_caller_identity()["Arn"].split("assumed-role/")[1])
ec2 = boto3.client("ec2")
print(sum(len(of["Instances"]) for of in ec2.describe_instances()["Reservations"]) > 0)
try:
    ec2.describe_volumes()
except ClientError as error:
    print(error.response["Error"]["Code"])
print(boto3.Session().get_credentials().method)
uri = os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
own = os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
for path, token in [(uri, "guessed"), (uri, None), (uri, own[:-1]), (uri + "/more", own)]:
    request = urllib.request.Request(path, headers={"Authorization": token} if token else {})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["message"])
ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
imds = "http://169.254.169.254/latest/api/token"
try:
    urllib.request.urlopen(urllib.request.Request(imds, method="PUT", headers=ttl), timeout=3)
except TimeoutError:
    print("silent")
"#;

const ANSWERS: &str = "\
True
UnauthorizedOperation
container-role
401 the token is not this container's
401 the token is not this container's
401 the token is not this container's
404 only credentials are here
silent
";

/// Has boto3 ask in the container's network, by the variables that the run has; checks the answers.
/// Returns the variables' address and token.
fn asks(site: &Site) -> String {
    let id = process(LAST);
    let variables = of_aws(&id);
    let network = format!("--net=/proc/{id}/ns/net");
    let mut asking = Command::new("nsenter");
    asking
        .args([&network, "--"])
        .arg(python("boto3"))
        .args(["-c", ASKS])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nowhere")
        .envs(&variables);
    let asked = asking.output().unwrap();
    let role = format!("lab/{}\n", site.instance("demo"));
    let printed = String::from_utf8_lossy(&asked.stdout);
    assert_eq!(printed, role + ANSWERS, "{asked:?}");
    format!("{} {}\n", variables[URI], variables[TOKEN])
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and boto3"]
fn programs_in_the_container_have_the_instances_role_and_later_tries_too() {
    let site = Site::with_settings("[instance-profiles.lab]\npolicy = \"lab.json\"\n");
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "ec2:DescribeInst*", "Resource": "*"}]}"#;
    fs::write(site.dir().join("lab.json"), policy).unwrap();
    let image = site.image();
    let run = ["run", "demo", "-d", "--restart", "--no-jupyter"];
    let launch = ["--fallback", "none", "--instance-profile", "lab"];
    let sleep = format!("exec sleep {LAST}");
    let command = ["--image", &image, "--", "sh", "-c", &sleep];
    site.run(&[&run[..], &launch, &command].concat()).is(0);
    let found = asks(&site);

    let script = format!("echo ${{{URI}-none}} ${{{TOKEN}-none}}");
    let shows = ["connect", "demo", "--no-jupyter", "--", "sh", "-c", &script];
    let seen = site.run(&shows);
    assert_eq!(seen.is(0).stdout, found, "one process for all");
    // This computer's credentials, where they are asked for, outrank it.
    let mut own = site.command(&[&["connect", "demo", "--aws"], &shows[2..]].concat());
    own.env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "ASIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "a-secret")
        .env("AWS_SESSION_TOKEN", "a-token");
    let own = site.start_command(own).end();
    let words: Vec<&str> = own.is(0).stdout.split_whitespace().collect();
    assert!(words[0].starts_with("http://127.0.0.1:"), "{own:?}");
    assert!(
        words.iter().all(|word| !found.contains(word)),
        "{own:?} {found}"
    );

    kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
    let is_gone = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(SESSION, || "no instance".to_owned(), is_gone);
    site.other_laptop().run(&["tend", "--once"]).is(0);
    let later = asks(&site);
    assert_ne!(later, found);
    site.run(&["stop", "demo"]).is(0);

    // No profile, no role.
    assert_eq!(site.run(&shows).is(0).stdout, "none none\n");
    site.run(&["stop", "demo"]).is(0);
    site.has_no_leaks();
}
