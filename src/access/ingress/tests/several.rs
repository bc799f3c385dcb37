//! Several laptops, and several sessions of one, at one group.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_second_laptop_leaves_the_first_ones_rule_and_a_moved_one_replaces_its_own() {
    let town = Town::new(paper());
    let launch = async |laptop: &str, from: &[&str]| {
        town.ingress(ADA, laptop, from).for_launch().await.unwrap();
    };
    launch("one", &["203.0.113.7"]).await;
    launch("two", &["198.51.100.0/24", "2001:db8::7"]).await;
    let all = ["203.0.113.7/32", "198.51.100.0/24", "2001:db8::7/128"];
    assert_eq!(town.authorize(ADA).await, all);
    a_day().await;
    launch("one", &["192.0.2.1"]).await;
    let all = ["198.51.100.0/24", "192.0.2.1/32", "2001:db8::7/128"];
    assert_eq!(town.authorize(ADA).await, all);
    // Behind one address both share one rule.
    launch("two", &["192.0.2.1"]).await;
    assert_eq!(town.authorize(ADA).await, ["192.0.2.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn two_sessions_of_one_laptop_that_come_from_two_addresses_do_not_lock_each_other_out() {
    let town = Town::new(paper());
    // By a VPN, and directly.
    let (mut vpn, mut straight) = (
        town.ingress(ADA, "one", &["10.8.0.2"]),
        town.ingress(ADA, "one", &["203.0.113.7"]),
    );
    let both = ["10.8.0.2/32", "203.0.113.7/32"];
    let groups = vpn.for_launch().await.unwrap();
    let host = town.launch(groups).await;
    straight.for_launch().await.unwrap();
    assert_eq!(town.authorize(ADA).await, both);
    for _ in 0..3 {
        sleep(GOOD).await;
        open(&mut vpn, &host, AT).await;
        open(&mut straight, &host, AT).await;
        assert_eq!(town.authorize(ADA).await, both);
    }
    // A session of days: its rule may be revoked, and its next login makes it again.
    a_day().await;
    open(&mut straight, &host, AT).await;
    assert_eq!(town.authorize(ADA).await, ["203.0.113.7/32"]);
    // A rule that was used a moment ago stays.
    open(&mut vpn, &host, AT).await;
    let both = ["203.0.113.7/32", "10.8.0.2/32"];
    assert_eq!(town.authorize(ADA).await, both);
    sleep(GOOD).await;
    open(&mut straight, &host, AT).await;
    assert_eq!(town.authorize(ADA).await, both);
}

#[tokio::test(start_paused = true)]
async fn a_group_without_room_is_rid_of_what_this_laptop_wants_no_more() {
    let full = |times| {
        let mut full = Fault::new(
            "AuthorizeSecurityGroupIngress",
            400,
            "RulesPerSecurityGroupLimitExceeded",
            "The maximum number of rules per security group has been reached.",
        );
        full.times = times;
        full
    };
    let town = Town::new(paper());
    let launch = async |laptop: &str, from: &str| {
        town.ingress(ADA, laptop, &[from])
            .for_launch()
            .await
            .map(drop)
    };
    launch("one", "203.0.113.7").await.unwrap();
    launch("two", "198.51.100.1").await.unwrap();
    town.local.plant(full(1)).unwrap();
    launch("one", "192.0.2.1").await.unwrap();
    assert_eq!(
        town.authorize(ADA).await,
        ["198.51.100.1/32", "192.0.2.1/32"]
    );
    town.local.plant(full(2)).unwrap();
    let Err(HostError::Ec2(error)) = launch("one", "192.0.2.2").await else {
        panic!("there is room");
    };
    assert_eq!(error.kind, Kind::Quota);
    assert_eq!(town.authorize(ADA).await, ["198.51.100.1/32"]);
}

/// The descriptions of the group's rules.
async fn descriptions(town: &Town) -> Vec<String> {
    let rules = town.group(ADA).await.unwrap().rules;
    let descriptions = rules.iter().map(|rule| rule.description.clone());
    descriptions.collect()
}

#[tokio::test(start_paused = true)]
async fn each_login_renews_the_date_of_the_rule_it_comes_by_some_times_a_day() {
    let town = Town::new(paper());
    let mut one = town.ingress(ADA, "one", &["203.0.113.7"]);
    let host = town.launch(one.for_launch().await.unwrap()).await;
    let first = descriptions(&town).await;
    assert!(first[0].ends_with(" 2026-11-21T12:00:00Z"), "{first:?}");
    sleep(Duration::from_hours(6)).await;
    open(&mut one, &host, AT).await;
    assert_eq!(descriptions(&town).await, first, "it is not so old");
    // Any laptop's login renews its date, and it stays.
    for (laptop, date) in [("two", "21T20:00:00Z"), ("one", "22T04:00:00Z")] {
        let elapsed = if laptop == "two" { 2 } else { 8 };
        sleep(Duration::from_hours(elapsed)).await;
        let mut ingress = town.ingress(ADA, laptop, &["203.0.113.7"]);
        open(&mut ingress, &host, AT).await;
        let renewed = first[0].replace("21T12:00:00Z", date);
        assert_eq!(descriptions(&town).await, [renewed], "{laptop}");
    }
    // A launch too, before there is a host.
    sleep(Duration::from_hours(24)).await;
    town.ingress(ADA, "two", &["203.0.113.7"])
        .for_launch()
        .await
        .unwrap();
    let renewed = first[0].replace("21T12:00:00Z", "23T04:00:00Z");
    assert_eq!(descriptions(&town).await, [renewed]);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_makes_a_rule_that_is_gone_again() {
    let town = Town::new(paper());
    let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
    let host = town.launch(ingress.for_launch().await.unwrap()).await;
    // Weeks over one connection, then gc on another laptop.
    sleep(Duration::from_hours(24 * 21)).await;
    let group = town.group(ADA).await.unwrap();
    town.ec2.revoke(&group.id, &group.rules[0]).await.unwrap();
    open(&mut ingress, &host, AT).await;
    let made = descriptions(&town).await;
    assert!(made[0].ends_with(" 2026-12-12T12:00:00Z"), "{made:?}");
    // A rule that is revoked between the read and the renewal.
    sleep(Duration::from_hours(7)).await;
    let group = town.group(ADA).await.unwrap();
    town.ec2.revoke(&group.id, &group.rules[0]).await.unwrap();
    let from = ["203.0.113.7".parse().unwrap()];
    let came = ingress.plan.authorize(&group, &from).await.unwrap();
    assert_eq!(came.made.len(), 1);
    assert_eq!(town.authorize(ADA).await, ["203.0.113.7/32"]);
}

#[tokio::test(start_paused = true)]
async fn a_login_without_the_right_to_renew_a_date_is_let_in() {
    let town = Town::new(paper());
    let mut ingress = town.ingress(ADA, "one", &["203.0.113.7"]);
    let host = town.launch(ingress.for_launch().await.unwrap()).await;
    let first = descriptions(&town).await;
    sleep(Duration::from_hours(7)).await;
    let action = "UpdateSecurityGroupRuleDescriptionsIngress";
    let denied = Fault::new(action, 403, "UnauthorizedOperation", "no");
    town.local.plant(denied).unwrap();
    open(&mut ingress, &host, AT).await;
    assert_eq!(descriptions(&town).await, first);
    let printed = town.report.printed();
    let words = "could not renew the date of the rule for 203.0.113.7/32 in xdrive-";
    assert!(printed.contains(words), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_rule_in_the_group_is_left_alone() {
    let town = Town::new(paper());
    town.ingress(ADA, "one", &["203.0.113.7"])
        .for_launch()
        .await
        .unwrap();
    let group = town.group(ADA).await.unwrap().id;
    let office = ssh("192.0.2.0/24".parse().unwrap(), "the office".to_owned());
    town.ec2.authorize(&group, &office).await.unwrap();
    a_day().await;
    town.ingress(ADA, "one", &["198.51.100.1"])
        .for_launch()
        .await
        .unwrap();
    assert_eq!(
        town.authorize(ADA).await,
        ["192.0.2.0/24", "198.51.100.1/32"]
    );
}
