//! Several laptops, and several sessions of one, at one group.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_second_laptop_leaves_the_first_ones_rule_and_a_moved_one_replaces_its_own() {
    let town = Town::new(paper());
    let launch = async |laptop: &str, from: &[&str]| {
        town.door(ADA, laptop, from).for_launch().await.unwrap();
    };
    launch("one", &["203.0.113.7"]).await;
    launch("two", &["198.51.100.0/24", "2001:db8::7"]).await;
    let all = ["203.0.113.7/32", "198.51.100.0/24", "2001:db8::7/128"];
    assert_eq!(town.let_in(ADA).await, all);
    a_day().await;
    launch("one", &["192.0.2.1"]).await;
    let all = ["198.51.100.0/24", "192.0.2.1/32", "2001:db8::7/128"];
    assert_eq!(town.let_in(ADA).await, all);
    // Where both are behind one address there is one rule, whosever it is.
    launch("two", &["192.0.2.1"]).await;
    assert_eq!(town.let_in(ADA).await, ["192.0.2.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn two_sessions_of_one_laptop_that_come_from_two_addresses_do_not_lock_each_other_out() {
    let town = Town::new(paper());
    // By a VPN, and straight.
    let (mut vpn, mut straight) = (
        town.door(ADA, "one", &["10.8.0.2"]),
        town.door(ADA, "one", &["203.0.113.7"]),
    );
    let both = ["10.8.0.2/32", "203.0.113.7/32"];
    let groups = vpn.for_launch().await.unwrap();
    let host = town.launch(groups).await;
    straight.for_launch().await.unwrap();
    assert_eq!(town.let_in(ADA).await, both);
    for _ in 0..3 {
        sleep(GOOD).await;
        open(&mut vpn, &host, AT).await;
        open(&mut straight, &host, AT).await;
        assert_eq!(town.let_in(ADA).await, both);
    }
    // A session of days: its rule may go, and is there again for its next attempt.
    a_day().await;
    open(&mut straight, &host, AT).await;
    assert_eq!(town.let_in(ADA).await, ["203.0.113.7/32"]);
    open(&mut vpn, &host, AT).await;
    assert_eq!(town.let_in(ADA).await, ["10.8.0.2/32"]);
    open(&mut straight, &host, AT).await;
    sleep(GOOD).await;
    open(&mut straight, &host, AT).await;
    assert_eq!(town.let_in(ADA).await, both);
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
        town.door(ADA, laptop, &[from]).for_launch().await.map(drop)
    };
    launch("one", "203.0.113.7").await.unwrap();
    launch("two", "198.51.100.1").await.unwrap();
    town.local.plant(full(1)).unwrap();
    launch("one", "192.0.2.1").await.unwrap();
    assert_eq!(town.let_in(ADA).await, ["198.51.100.1/32", "192.0.2.1/32"]);
    town.local.plant(full(2)).unwrap();
    let Err(HostError::Ec2(error)) = launch("one", "192.0.2.2").await else {
        panic!("there is room");
    };
    assert_eq!(error.kind, Kind::Quota);
    assert_eq!(town.let_in(ADA).await, ["198.51.100.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_rule_in_the_group_is_left_alone() {
    let town = Town::new(paper());
    town.door(ADA, "one", &["203.0.113.7"])
        .for_launch()
        .await
        .unwrap();
    let group = town.group(ADA).await.unwrap().id;
    let office = Rule {
        from: "192.0.2.0/24".parse().unwrap(),
        description: "the office".to_owned(),
    };
    town.ec2.let_in(&group, &office).await.unwrap();
    a_day().await;
    town.door(ADA, "one", &["198.51.100.1"])
        .for_launch()
        .await
        .unwrap();
    assert_eq!(town.let_in(ADA).await, ["192.0.2.0/24", "198.51.100.1/32"]);
}
