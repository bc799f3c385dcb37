//! Security groups of both clouds: made, authorized, revoked and deleted repeatedly.

mod wide;

use std::time::Duration;
use xdrive::ec2::{Ec2, Kind, LaunchOrder, Rule, RuleSource, Tags};
use xdrive::ids::SubnetId;
use xdrive::local::Settings;

use super::calls::launch;
use crate::folder::Folder;
use harness::evidence::may_terminate;

#[tokio::test]
async fn the_folder_has_ingress_rules_too() {
    let folder = Folder::in_real_time(Settings::default());
    opens_and_shuts(&folder.ec2, false).await;
}

async fn opens_and_shuts(ec2: &Ec2, is_moto: bool) {
    let nowhere: SubnetId = "subnet-0123456789abcdef0".parse().unwrap();
    let error = ec2.subnet(&nowhere).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound, "{error}");

    let vpc = ec2.default_vpc().await.unwrap().unwrap();
    let tags: Tags = [("xdrive:owner".to_owned(), "ada".to_owned())].into();
    let make = async || {
        let made = ec2.create_group("xdrive-ada", "laptops", &vpc, &tags).await;
        made.unwrap()
    };
    let id = make().await.unwrap();
    assert_eq!(make().await, None);
    let rules = ["203.0.113.7/32", "2001:db8::7/128"].map(|from| Rule {
        protocol: "tcp".to_owned(),
        ports: Some((22, 22)),
        from: RuleSource::Cidr(from.parse().unwrap()),
        description: "xdrive SHA256:AbC+/ 2026-11-21T12:00:00Z".to_owned(),
    });
    for rule in rules.iter().chain(&rules) {
        ec2.authorize(&id, rule).await.unwrap();
    }
    let named = ec2.group_named("xdrive-ada", &vpc).await.unwrap().unwrap();
    assert_eq!((&named.id, &named.vpc), (&id, &vpc));
    assert_eq!(named.rules, rules);
    assert_eq!(named.tags["xdrive:owner"], "ada");
    let owned = ec2.groups_of("ada").await.unwrap();
    assert_eq!(owned, std::slice::from_ref(&named));
    let tagged = ec2.tagged_groups(std::slice::from_ref(&id)).await;
    assert_eq!(tagged.unwrap(), [named]);

    let later = Rule {
        description: "xdrive SHA256:AbC+/ 2026-11-22T12:00:00Z".to_owned(),
        ..rules[1].clone()
    };
    assert!(ec2.describe_rule(&id, &later).await.unwrap());
    let named = ec2.group_named("xdrive-ada", &vpc).await.unwrap().unwrap();
    assert_eq!(named.rules, [rules[0].clone(), later]);

    let held = ec2
        .create_group("xdrive-held", "laptops", &vpc, &tags)
        .await;
    let held = held.unwrap().unwrap();
    let order = LaunchOrder {
        groups: vec![id.clone(), held.clone()],
        ..launch("in a group")
    };
    let host = ec2.launch(&order).await.unwrap();
    assert_eq!(host.groups, [id.clone(), held.clone()]);
    assert!(ec2.group_used_since(&id).await.unwrap().is_some());
    let deleted = ec2.delete_group(&held).await;
    if is_moto {
        // moto deletes a group that an instance is in. AWS agrees with the folder, which answers
        // DependencyViolation (EC2 API reference, `DeleteSecurityGroup`).
        assert_eq!(deleted, Ok(()));
    } else {
        assert_eq!(deleted.unwrap_err().kind, Kind::State);
    }
    ec2.terminate(may_terminate(&host.id)).await.unwrap();

    for rule in rules.iter().chain(&rules) {
        ec2.revoke(&id, rule).await.unwrap();
    }
    let named = ec2.group_named("xdrive-ada", &vpc).await.unwrap().unwrap();
    assert_eq!(named.rules, []);
    while ec2.group_used_since(&id).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for group in [&id, &held, &id] {
        ec2.delete_group(group).await.unwrap();
    }
    assert_eq!(ec2.groups_of("ada").await.unwrap(), []);
}
