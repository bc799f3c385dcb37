//! The network: the default VPC, subnets, security groups and their rules.

use xdrive::ec2::{Kind, LaunchOrder, Rule, RuleSource, Zone};
use xdrive::ids::{GroupId, SubnetId, VpcId};
use xdrive::local::{Fault, Preset, Settings};

use super::{launch_order, tags};
use crate::folder::Folder;
use harness::evidence::may_terminate;

fn rule(from: &str, description: &str) -> Rule {
    Rule {
        protocol: "tcp".to_owned(),
        ports: Some((22, 22)),
        from: RuleSource::Cidr(from.parse().unwrap()),
        description: description.to_owned(),
    }
}

impl Folder {
    async fn vpc(&self) -> VpcId {
        self.ec2.default_vpc().await.unwrap().unwrap()
    }

    /// A group called `name` of the owner `ada`.
    async fn group_of_ada(&self, name: &str) -> GroupId {
        let tags = tags(&[("xdrive:owner", "ada")]);
        let vpc = self.vpc().await;
        let made = self.ec2.create_group(name, "who may log in", &vpc, &tags);
        made.await.unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_made_once_with_its_tags_and_found_by_name_and_by_owner() {
    let folder = Folder::delayed(Preset::Fast);
    let (ec2, vpc) = (&folder.ec2, folder.vpc().await);
    let id = folder.group_of_ada("xdrive-ada*").await;
    // Again, as after a lost answer.
    let mine = tags(&[("xdrive:owner", "ada")]);
    let again = ec2.create_group("xdrive-ada*", "who may log in", &vpc, &mine);
    assert_eq!(again.await.unwrap(), None);
    let other = folder.group_of_ada("xdrive-ada-2").await;

    let found = ec2.group_named("xdrive-ada*", &vpc).await.unwrap().unwrap();
    assert_eq!((&found.id, &found.vpc), (&id, &vpc));
    assert_eq!(found.tags["xdrive:owner"], "ada");
    assert_eq!(found.rules, []);
    assert_eq!(ec2.group_named("xdrive", &vpc).await.unwrap(), None);
    let owned = ec2.groups_of("ada").await.unwrap();
    let mut owned: Vec<_> = owned.into_iter().map(|group| group.id).collect();
    owned.sort();
    let mut made = vec![id.clone(), other];
    made.sort();
    assert_eq!(owned, made);
    assert!(ec2.groups_of("a*").await.unwrap().is_empty());

    let default: GroupId = "sg-00000000000000001".parse().unwrap();
    let gone: GroupId = "sg-0000000000000dead".parse().unwrap();
    let tagged = ec2.tagged_groups(&[default, id.clone(), gone]).await;
    let tagged: Vec<_> = tagged.unwrap().into_iter().map(|group| group.id).collect();
    assert_eq!(tagged, [id]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_made_and_revoked_as_often_as_one_likes() {
    let folder = Folder::delayed(Preset::Fast);
    let (ec2, vpc) = (&folder.ec2, folder.vpc().await);
    let group = folder.group_of_ada("laptops").await;
    let rules = [
        rule("203.0.113.7/32", "xdrive SHA256:abc+/ 2026-11-21T12:00:00Z"),
        rule("2001:db8::7/128", "six"),
    ];
    for rule in rules.iter().chain(&rules) {
        ec2.authorize(&group, rule).await.unwrap();
    }
    // A rule is identified by what it authorizes, not by its description.
    ec2.authorize(&group, &rule("203.0.113.7/32", "of another"))
        .await
        .unwrap();
    let found = ec2.group_named("laptops", &vpc).await.unwrap().unwrap();
    assert_eq!(found.rules, rules);

    for rule in rules.iter().chain(&rules) {
        ec2.revoke(&group, rule).await.unwrap();
    }
    let found = ec2.group_named("laptops", &vpc).await.unwrap().unwrap();
    assert_eq!(found.rules, []);
    ec2.delete_group(&group).await.unwrap();
    ec2.delete_group(&group).await.unwrap();
    ec2.revoke(&group, &rules[0]).await.unwrap();
    let error = ec2.authorize(&group, &rules[0]).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_launched_into_its_groups_and_subnet_and_keeps_the_group_from_deletion() {
    let folder = Folder::delayed(Preset::Fast);
    let ec2 = &folder.ec2;
    let group = folder.group_of_ada("laptops").await;
    assert!(ec2.group_used_since(&group).await.unwrap().is_none());
    let id: SubnetId = "subnet-00000000000000003".parse().unwrap();
    let subnet = ec2.subnet(&id).await.unwrap();
    assert_eq!(subnet.vpc, folder.vpc().await);
    let order = LaunchOrder {
        zone: None,
        subnet: Some(subnet.id),
        groups: vec![group.clone()],
        ..launch_order("placed")
    };
    // Not every call sees a new group at once.
    let mut unseen = Fault::new("RunInstances", 400, "InvalidGroup.NotFound", "not yet");
    unseen.times = 2;
    folder.local.plant(unseen).unwrap();
    let instance = ec2.launch(&order).await.unwrap();
    assert_eq!(instance.zone, subnet.zone);
    assert_eq!(instance.groups, std::slice::from_ref(&group));
    assert!(ec2.group_used_since(&group).await.unwrap().is_some());
    let error = ec2.delete_group(&group).await.unwrap_err();
    assert_eq!(error.kind, Kind::State, "{error}");
    assert_eq!(error.code, "DependencyViolation");

    ec2.terminate(may_terminate(&instance.id)).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert!(ec2.group_used_since(&group).await.unwrap().is_none());
    ec2.delete_group(&group).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_zone_without_a_default_subnet_is_a_pool_without_capacity() {
    let folder = Folder::delayed(Preset::Fast);
    let words = "No default subnet for availability zone: 'us-east-1b'.";
    let fault = Fault::new("RunInstances", 400, "MissingInput", words);
    folder.local.plant(fault).unwrap();
    let error = folder
        .ec2
        .launch(&launch_order("nowhere"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, Kind::Capacity, "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_a_default_vpc_only_a_subnet_can_be_launched_into() {
    let folder = Folder::new(Settings {
        default_vpc: Some(false),
        ..Settings::default()
    });
    let ec2 = &folder.ec2;
    assert_eq!(ec2.default_vpc().await.unwrap(), None);
    let error = ec2.launch(&launch_order("nowhere")).await.unwrap_err();
    assert_eq!(error.code, "VPCIdNotSpecified", "{error}");
    assert_eq!(error.kind, Kind::Invalid);
    let order = LaunchOrder {
        zone: Some(Zone("us-east-1a".to_owned())),
        subnet: Some("subnet-00000000000000001".parse().unwrap()),
        ..launch_order("somewhere")
    };
    ec2.launch(&order).await.unwrap();
    let unknown: SubnetId = "subnet-0000000000000dead".parse().unwrap();
    let error = ec2.subnet(&unknown).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_instance_profile_is_refused_whether_by_name_or_by_arn() {
    let folder = Folder::delayed(Preset::Fast);
    for profile in ["lab", "arn:aws:iam::111122223333:instance-profile/lab"] {
        let order = LaunchOrder {
            instance_profile: Some(profile.to_owned()),
            ..launch_order("profile")
        };
        let error = folder.ec2.launch(&order).await.unwrap_err();
        assert_eq!(error.kind, Kind::Invalid);
        assert!(error.message.contains(profile), "{error}");
        let which = if profile.starts_with("arn:") {
            "iamInstanceProfile.arn"
        } else {
            "iamInstanceProfile.name"
        };
        assert!(error.message.contains(which), "{error}");
    }
}
