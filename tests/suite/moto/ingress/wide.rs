//! Variants of `ingress`, which `shell/test.sh --all` runs.

use xdrive::ec2::{Ec2, Rule, RuleSource, Tags};

use super::opens_and_shuts;
use crate::moto::server::against_moto;

#[test]
#[ignore = "needs python3 with moto"]
fn moto_has_ingress_rules() {
    against_moto(test_name!(moto_has_ingress_rules), async |ec2| {
        opens_and_shuts(&ec2, true).await;
    });
}

#[test]
#[ignore = "needs python3 with moto"]
fn moto_lets_a_group_in_to_any_port() {
    against_moto(test_name!(moto_lets_a_group_in_to_any_port), async |ec2| {
        lets_a_group_in(&ec2).await;
    });
}

async fn lets_a_group_in(ec2: &Ec2) {
    let vpc = ec2.default_vpc().await.unwrap().unwrap();
    let tags: Tags = [("xdrive:owner".to_owned(), "ada".to_owned())].into();
    let made = ec2.create_group("xdrive-ada", "laptops", &vpc, &tags).await;
    let id = made.unwrap().unwrap();
    let rule = |protocol: &str, ports| Rule {
        protocol: protocol.to_owned(),
        ports,
        from: RuleSource::Group(id.clone()),
        description: "of each other".to_owned(),
    };
    let rules = [rule("tcp", Some((2049, 2049))), rule("-1", None)];
    for rule in rules.iter().chain(&rules) {
        ec2.authorize(&id, rule).await.unwrap();
    }
    let named = ec2.group_named("xdrive-ada", &vpc).await.unwrap().unwrap();
    assert_eq!(named.rules, rules);
    // Revoked they are not: moto finds no such rule unless it is given its description, too.
    ec2.delete_group(&id).await.unwrap();
}
