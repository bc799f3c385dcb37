//! The ingress of several laptops on a paper EC2.

mod several;

use std::net::Ipv4Addr;

use tempfile::TempDir;
use tokio::time::sleep;

use super::rules::{STAYS, ssh};
use super::*;
use crate::cloud::folder;
use crate::drive::pools::image_of;
use crate::ec2::loopback::{after_a_call, answering};
use crate::ec2::{Arch, Kind, LaunchOrder, Market, Tags};
use crate::local::plane::PaperPlane;
use crate::local::{Fault, Local, OpenOptions, Settings};
use crate::ssh::ProxyCommand;

const ADA: &str = "arn:aws:iam::000000000000:user/ada";
const BOB: &str = "arn:aws:iam::000000000000:user/bob";

/// A paper EC2, and the keys of its laptops.
struct Town {
    dir: TempDir,
    local: Local,
    ec2: Ec2,
    /// Where all laptops report.
    report: Report,
}

impl Town {
    fn new(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::tokio("2026-11-21T12:00:00Z".parse().unwrap());
        let mut options = OpenOptions::new(&dir.path().join("state"), PaperPlane, clock);
        options.settings = settings;
        let local = Local::open(options).unwrap();
        let ec2 = folder::ec2(&local);
        Self {
            dir,
            local,
            ec2,
            report: Report::in_memory(),
        }
    }

    /// The ingress of `owner`'s `laptop`, which authorizes `from`.
    fn ingress(&self, owner: &str, laptop: &str, from: &[&str]) -> Ingress {
        let reach = Reach {
            cidrs: from.iter().map(|cidr| cidr.parse().unwrap()).collect(),
            ..Reach::default()
        };
        self.ingress_with(owner, laptop, reach)
    }

    fn ingress_with(&self, owner: &str, laptop: &str, reach: Reach) -> Ingress {
        let key = UserKey::open_or_create(&self.dir.path().join(laptop)).unwrap();
        let clock = self.local.clock().clone();
        let (ec2, report) = (self.ec2.clone(), self.report.clone());
        Ingress::new(ec2, clock, report, owner, &key, None, reach)
    }

    async fn launch(&self, groups: Vec<GroupId>) -> Instance {
        let tags: Tags = [("xdrive:drive".to_owned(), "demo".to_owned())].into();
        let order = LaunchOrder {
            client_token: format!("{:?}", self.ec2.everything().await.unwrap().0.len()),
            image: image_of(Arch::X86_64, false).to_owned(),
            instance_type: "t3.medium".to_owned(),
            zone: None,
            subnet: None,
            public_address: false,
            root_device: None,
            groups,
            instance_profile: None,
            market: Market::OnDemand,
            max_price: None,
            reservation: None,
            user_data: Vec::new(),
            tags: tags.clone(),
            root_tags: tags,
            interface_tags: Tags::new(),
        };
        self.ec2.launch(&order).await.unwrap()
    }

    async fn group(&self, owner: &str) -> Option<Group> {
        let groups = self.ec2.groups_of(owner).await.unwrap();
        assert!(groups.len() < 2, "{groups:?}");
        groups.into_iter().next()
    }

    /// The ranges authorized for `owner`'s hosts.
    async fn authorize(&self, owner: &str) -> Vec<String> {
        let rules = self.group(owner).await.map(|group| group.rules);
        let rules = rules.unwrap_or_default();
        rules.iter().map(|rule| rule.from.to_string()).collect()
    }
}

/// Authorizes the ingress of a host, as a login does, to its end.
async fn open(ingress: &mut Ingress, host: &Instance, at: IpAddr) {
    ingress.open(host, at);
    while !ingress.opening.is_empty() {
        ingress.opened().await;
    }
}

/// Waits until a rule that its laptop does not want is old.
async fn a_day() {
    sleep(STAYS.unsigned_abs() + GOOD).await;
}

fn paper() -> Settings {
    Settings::default()
}

/// Some address of a paper instance.
const AT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));

#[tokio::test(start_paused = true)]
async fn the_first_launch_makes_group_and_rule_and_the_next_finds_them() {
    let town = Town::new(paper());
    let mut ingress = town.ingress(ADA, "laptop", &["203.0.113.7"]);
    ingress.look_ahead();
    let groups = ingress.for_launch().await.unwrap();
    let group = town.group(ADA).await.unwrap();
    assert_eq!(groups, std::slice::from_ref(&group.id));
    assert_eq!(group.name, group_name(ADA));
    let rule = &group.rules[0];
    assert_eq!(rule.from.to_string(), "203.0.113.7/32");
    assert_eq!(laptop(rule), Some(ingress.plan.laptop.as_str()));
    assert!(
        rule.description.ends_with(" 2026-11-21T12:00:00Z"),
        "{rule:?}"
    );

    let printed = town.report.printed();
    let line = format!("  {} ({}) lets 203.0.113.7/32 in\n", group.name, group.id);
    assert!(printed.ends_with(&line), "{printed}");

    let mut again = town.ingress(ADA, "laptop", &["203.0.113.7"]);
    assert_eq!(again.for_launch().await.unwrap(), groups);
    assert_eq!(town.group(ADA).await.unwrap(), group);
    assert_eq!(town.report.printed(), printed, "nothing was done");
    // Another owner's is another group.
    let other = town
        .ingress(BOB, "laptop", &["203.0.113.7"])
        .for_launch()
        .await;
    assert_ne!(other.unwrap(), groups);
}

#[tokio::test(start_paused = true)]
async fn right_after_a_launch_the_group_is_not_looked_at_again() {
    let town = Town::new(paper());
    let mut ingress = town.ingress(ADA, "one", &[]);
    let groups = ingress.for_launch().await.unwrap();
    let host = town.launch(groups).await;
    let denied = Fault::new("DescribeSecurityGroups", 403, "UnauthorizedOperation", "no");
    town.local.plant(denied).unwrap();
    open(&mut ingress, &host, Ipv4Addr::LOCALHOST.into()).await;
    let untouched = town.ec2.groups_of(ADA).await.unwrap_err();
    assert_eq!(untouched.kind, Kind::Denied, "nobody was refused before");
    assert_eq!(town.authorize(ADA).await, ["127.0.0.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_gone_at_the_launch_is_made_again() {
    let town = Town::new(paper());
    let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
    let groups = ingress.for_launch().await.unwrap();
    town.ec2.delete_group(&groups[0]).await.unwrap();
    assert_eq!(ingress.for_launch().await.unwrap(), groups);
    ingress.forget();
    assert_ne!(ingress.for_launch().await.unwrap(), groups);
    assert_eq!(town.authorize(ADA).await, ["203.0.113.7/32"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_another_laptop_makes_at_the_same_moment_is_used() {
    let town = Town::new(paper());
    let (mut one, mut two) = (
        town.ingress(ADA, "one", &["203.0.113.7"]),
        town.ingress(ADA, "two", &["198.51.100.1"]),
    );
    // Both find none; then both make it.
    one.look_ahead();
    two.look_ahead();
    for ingress in [&one, &two] {
        let (_, looking) = ingress.ahead.as_ref().unwrap();
        while !looking.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let (made, found) = (
        one.for_launch().await.unwrap(),
        two.for_launch().await.unwrap(),
    );
    assert_eq!(made, found);
    assert_eq!(
        town.authorize(ADA).await,
        ["203.0.113.7/32", "198.51.100.1/32"]
    );
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_lists_that_lag_leave_one_group_and_one_rule() {
    for call in ["CreateSecurityGroup", "AuthorizeSecurityGroupIngress"] {
        let town = Town::new(Settings {
            stale_lists_ms: Some(2000),
            ..paper()
        });
        town.local.plant(Fault::answer_lost(call)).unwrap();
        let mut unseen = Fault::new(
            "AuthorizeSecurityGroupIngress",
            400,
            "InvalidGroup.NotFound",
            "not yet",
        );
        unseen.times = 2;
        town.local.plant(unseen).unwrap();
        let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
        ingress.for_launch().await.unwrap();
        sleep(Duration::from_secs(3)).await;
        assert_eq!(town.authorize(ADA).await, ["203.0.113.7/32"], "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_of_that_name_that_is_not_this_owners_is_not_used() {
    let town = Town::new(paper());
    let vpc = town.ec2.default_vpc().await.unwrap().unwrap();
    let tags = tags::group(BOB);
    let name = group_name(ADA);
    town.ec2
        .create_group(&name, "a trap", &vpc, &tags)
        .await
        .unwrap();
    let error = town
        .ingress(ADA, "one", &["203.0.113.7"])
        .for_launch()
        .await;
    let Err(HostError::NoRoute { why, hint }) = error else {
        panic!("{error:?}");
    };
    assert!(why.contains("is not this owner's"), "{why}");
    assert!(
        hint.contains("delete-security-group --group-id sg-"),
        "{hint}"
    );
    assert_eq!(town.authorize(BOB).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_default_vpc_a_subnet_is_asked_for() {
    let town = Town::new(Settings {
        default_vpc: Some(false),
        ..paper()
    });
    let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
    ingress.look_ahead();
    let error = ingress.for_launch().await;
    let Err(HostError::NoRoute { why, hint }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(why, "there is no default VPC in us-east-1");
    assert!(hint.starts_with("--subnet"), "{hint}");
    let subnet = "subnet-00000000000000002".parse().unwrap();
    ingress.plan.subnet = Some(town.ec2.subnet(&subnet).await.unwrap());
    assert_eq!(ingress.for_launch().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_returned_as_the_error_of_ec2() {
    let town = Town::new(paper());
    let denied = Fault::new("CreateSecurityGroup", 403, "UnauthorizedOperation", "no");
    town.local.plant(denied).unwrap();
    let error = town
        .ingress(ADA, "one", &["203.0.113.7"])
        .for_launch()
        .await;
    let Err(HostError::Ec2(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (error.kind, error.call),
        (Kind::Denied, "CreateSecurityGroup")
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_there_is_opened_for_another_laptop_and_for_one_that_moved() {
    let town = Town::new(paper());
    let mut one = town.ingress(ADA, "one", &["203.0.113.7"]);
    let groups = one.for_launch().await.unwrap();
    let host = town.launch(groups).await;
    let mut two = town.ingress(ADA, "two", &["198.51.100.1"]);
    open(&mut two, &host, AT).await;
    assert_eq!(
        town.authorize(ADA).await,
        ["203.0.113.7/32", "198.51.100.1/32"]
    );
    // In another network; a minute later the address is looked up again.
    two.plan.reach.cidrs = vec!["192.0.2.1".parse().unwrap()];
    open(&mut two, &host, AT).await;
    assert_eq!(
        town.authorize(ADA).await,
        ["203.0.113.7/32", "198.51.100.1/32"]
    );
    a_day().await;
    open(&mut two, &host, AT).await;
    assert_eq!(
        town.authorize(ADA).await,
        ["203.0.113.7/32", "192.0.2.1/32"]
    );
    // Another owner, on a drive that is shared: in the group that the host has.
    let mut three = town.ingress(BOB, "three", &["192.0.2.3"]);
    open(&mut three, &host, AT).await;
    assert_eq!(town.group(BOB).await, None);
    assert_eq!(town.authorize(ADA).await[2], "192.0.2.3/32");
}

#[tokio::test(start_paused = true)]
async fn a_host_in_groups_that_no_xdrive_made_is_not_touched() {
    let town = Town::new(paper());
    let host = town.launch(Vec::new()).await;
    let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
    open(&mut ingress, &host, AT).await;
    let vpc = town.ec2.default_vpc().await.unwrap().unwrap();
    let default = town.ec2.group_named("default", &vpc).await.unwrap();
    let rules = default.unwrap().rules;
    assert!(rules.iter().all(|rule| laptop(rule).is_none()), "{rules:?}");
    assert_eq!(town.group(ADA).await, None);
}

#[tokio::test(start_paused = true)]
async fn where_an_endpoint_stands_in_for_aws_the_route_there_has_the_address() {
    let town = Town::new(paper());
    // No service is asked, and no CIDR is known before the host has an address.
    let mut ingress = town.ingress(ADA, "one", &[]);
    let groups = ingress.for_launch().await.unwrap();
    assert_eq!(town.authorize(ADA).await, [""; 0]);
    let host = town.launch(groups).await;
    open(&mut ingress, &host, Ipv4Addr::LOCALHOST.into()).await;
    assert_eq!(town.authorize(ADA).await, ["127.0.0.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn through_a_command_nobody_is_let_in_but_who_is_named() {
    let town = Town::new(paper());
    let command: ProxyCommand = "nc %h %p".parse().unwrap();
    let proxied = |from: &[&str]| Reach {
        cidrs: from.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        proxy: Some(command.clone()),
        ..Reach::default()
    };
    let mut ingress = town.ingress_with(ADA, "one", proxied(&[]));
    ingress.look_ahead();
    // A group without rules, in place of the VPC's default group, which may allow anyone.
    assert_eq!(ingress.for_launch().await.unwrap().len(), 1);
    assert_eq!(town.authorize(ADA).await, [""; 0]);
    let mut ingress = town.ingress_with(ADA, "one", proxied(&["10.0.0.0/8"]));
    assert_eq!(ingress.for_launch().await.unwrap().len(), 1);
    assert_eq!(town.authorize(ADA).await, ["10.0.0.0/8"]);
}

#[tokio::test(start_paused = true)]
async fn an_old_look_ahead_does_not_hide_that_the_group_was_deleted() {
    let town = Town::new(paper());
    let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
    let groups = ingress.for_launch().await.unwrap();
    let mut later = town.ingress(ADA, "one", &["203.0.113.7"]);
    later.look_ahead();
    sleep(GOOD).await;
    // A cleanup deleted the group meanwhile.
    town.ec2.delete_group(&groups[0]).await.unwrap();
    let made = later.for_launch().await.unwrap();
    assert_ne!(made, groups);
    assert_eq!(town.authorize(ADA).await, ["203.0.113.7/32"]);
}

#[tokio::test(start_paused = true)]
async fn every_call_may_fail_in_every_way_and_leaves_one_group_and_one_rule() {
    let passing = |call| {
        [
            Fault::throttled(call, 2),
            Fault::answer_lost(call),
            Fault::new(call, 503, "Unavailable", "later"),
        ]
    };
    for call in [
        "DescribeVpcs",
        "DescribeSecurityGroups",
        "CreateSecurityGroup",
        "AuthorizeSecurityGroupIngress",
        "RevokeSecurityGroupIngress",
    ] {
        for fault in passing(call) {
            let town = Town::new(paper());
            town.local.plant(fault.clone()).unwrap();
            for from in ["203.0.113.7", "192.0.2.1"] {
                let mut ingress = town.ingress(ADA, "one", &[from]);
                a_day().await;
                let opened = ingress.for_launch().await;
                assert!(opened.is_ok(), "{fault:?}: {opened:?}");
                assert_eq!(
                    town.authorize(ADA).await,
                    [format!("{from}/32")],
                    "{fault:?}"
                );
            }
        }
        let town = Town::new(paper());
        let denied = Fault::new(call, 403, "UnauthorizedOperation", "no");
        town.local.plant(denied).unwrap();
        let mut outcomes = Vec::new();
        for from in ["203.0.113.7", "192.0.2.1", "192.0.2.2"] {
            a_day().await;
            outcomes.push(town.ingress(ADA, "one", &[from]).for_launch().await);
        }
        let denied = outcomes.iter().any(|outcome| {
            matches!(outcome, Err(HostError::Ec2(error)) if error.kind == Kind::Denied && error.call == call)
        });
        // An old rule that may not be revoked is reported, and does not prevent a launch.
        let stayed = town
            .report
            .printed()
            .contains(" still lets 203.0.113.7/32 in: ");
        assert_eq!(
            (denied, stayed),
            match call {
                "RevokeSecurityGroupIngress" => (false, true),
                _ => (true, false),
            },
            "{call}: {outcomes:?}"
        );
        let left = town.authorize(ADA).await;
        assert!(
            left.contains(&"192.0.2.2/32".to_owned()),
            "{call}: {left:?}"
        );
    }
}

#[tokio::test]
async fn an_address_service_is_believed_when_it_answers_with_an_address() {
    let (url, server) = answering(&[
        b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\n203.0.113.7\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nlog in!\r\n",
    ]);
    let town = Town::new(paper());
    let mut plan = town.ingress(ADA, "one", &[]).plan.clone();
    plan.ec2 = after_a_call().await;
    plan.reach.address_service = Some(url.clone());
    assert_eq!(plan.ask().await.unwrap(), IpAddr::from([203, 0, 113, 7]));
    let error = plan.ask().await;
    let Err(HostError::NoRoute { why, hint }) = error else {
        panic!("{error:?}");
    };
    assert!(
        why.starts_with(&url) && why.ends_with("is no address"),
        "{why}"
    );
    assert!(hint.starts_with("--cidr"), "{hint}");
    assert_eq!(server.join().unwrap().len(), 3);
    // An endpoint is in AWS's place here: the service is not asked, though it is configured.
    assert_eq!(plan.from(None).await.unwrap(), []);
}
