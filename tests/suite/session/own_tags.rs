//! Tags of the account's own: on all that is made, as an organization may ask for.

mod wide;

use serde_json::json;

use super::simulated::{connect, in_the_cloud, paper, with_snapshot};
use super::site::Site;

const PAPER: &str = "plane = \"paper\"\n";

/// AWS's own example of a service control policy, for all that xdrive makes (AWS Organizations user
/// guide, *Example SCPs for tagging resources*).
fn asks_for_tags() -> String {
    let arn = |kind: &str| format!("arn:aws:ec2:*:*:{kind}/*");
    let denies = |actions: &[&str], resources: Vec<String>| {
        json!({
            "Effect": "Deny", "Action": actions, "Resource": resources,
            "Condition": {"Null": {"aws:RequestTag/CostCenter": "true"}},
        })
    };
    let launched = [
        "instance",
        "volume",
        "network-interface",
        "spot-instances-request",
    ];
    let copied = "arn:aws:ec2:*::snapshot/${*}".to_owned();
    let statements = json!([
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        denies(&["ec2:RunInstances"], launched.map(arn).to_vec()),
        denies(&["ec2:CreateVolume"], vec![arn("volume")]),
        denies(&["ec2:CreateSnapshot", "ec2:CopySnapshot"], vec![copied]),
        denies(&["ec2:CreateSecurityGroup"], vec![arn("security-group")]),
    ]);
    let policy = json!({"Version": "2012-10-17", "Statement": statements});
    format!("control-policy = '''{policy}'''\n")
}

fn forbidding(site: &Site, plane: &str) {
    site.set(&format!("{plane}{}", asks_for_tags()));
}

#[test]
fn an_organization_that_asks_for_tags_refuses_each_make_without_them_and_the_hint_names_the_flag() {
    let site = paper();
    with_snapshot(&site, &[("Name", "lab"), ("xdrive:drive", "lab")]);
    forbidding(&site, PAPER);
    site.run(&["fork", "lab", "trial"])
        .is(77)
        .reports("CopySnapshot: UnauthorizedOperation")
        .reports("with an explicit deny in a service control policy")
        .reports("--tag KEY=VALUE or `tags` in the configuration");
    let refused = connect(&site, &["--cidr", "192.0.2.7/32"]);
    refused
        .is(77)
        .reports("CreateSecurityGroup: UnauthorizedOperation")
        .reports("--tag KEY=VALUE");
    site.configure("tags = { CostCenter = \"42\" }\n");
    site.run(&["fork", "lab", "trial"]).is(0);
    let tags = in_the_cloud(&site, async |ec2| {
        ec2.snapshots(&"trial".parse().unwrap()).await.unwrap()
    });
    assert_eq!(tags[0].tags["CostCenter"], "42");
    // A fork of the fork has the tag of its original, also from a computer without configuration.
    site.configure("");
    site.run(&["fork", "trial", "other"]).is(0);
}

#[test]
fn invalid_tags_are_refused_before_anything_is_asked() {
    let site = paper();
    for (tag, why) in [
        ("CostCenter", "KEY=VALUE"),
        ("xdrive:drive=x", "a tag of xdrive's own"),
        ("aws:x=y", "only AWS itself gives"),
        ("a=b*", "not '*'"),
    ] {
        connect(&site, &["--tag", tag]).is(2).reports(why);
    }
    let many: Vec<String> = (0..16).map(|n| format!("--tag=own-{n}=x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    connect(&site, &many).is(2).reports("16 tags are too many");
    site.configure("tags = { \"aws:x\" = \"y\" }\n");
    site.run(&["list"]).is(78).reports("only AWS itself gives");
}
