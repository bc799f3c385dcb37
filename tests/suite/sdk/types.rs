//! Instance types and their prices.

use xdrive::ec2::{Arch, Kind, Market, Zone};
use xdrive::local::Preset;

use crate::folder::Folder;

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_type_says_what_it_has() {
    let folder = Folder::delayed(Preset::Fast);
    let names = owned(&["g5g.xlarge", "t3.medium"]);
    let mut types = folder.ec2.instance_types(&names).await.unwrap();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    let seen: Vec<_> = types
        .iter()
        .map(|kind| (&*kind.name, kind.cpus, kind.memory, kind.gpus, kind.arch))
        .collect();
    assert_eq!(
        seen,
        [
            ("g5g.xlarge", 4, 8 * 1024, 1, Arch::Arm64),
            ("t3.medium", 2, 4 * 1024, 0, Arch::X86_64),
        ]
    );
    assert!(types.iter().all(|kind| kind.is_sold(Market::Spot)));
    assert!(types[0].has_accelerator && !types[1].has_accelerator);
}

#[tokio::test(start_paused = true)]
async fn a_type_that_there_is_not_is_named() {
    let folder = Folder::delayed(Preset::Fast);
    let names = owned(&["t3.medium", "t3.huge"]);
    let error = folder.ec2.instance_types(&names).await.unwrap_err();
    assert_eq!(
        (error.kind, &*error.code),
        (Kind::Invalid, "InvalidInstanceType")
    );
    assert!(error.message.contains("t3.huge"), "{error}");
    let near = folder.ec2.instance_types_like("t3.*").await.unwrap();
    assert!(near.len() > 3 && near.iter().all(|kind| kind.name.starts_with("t3.")));
}

#[tokio::test(start_paused = true)]
async fn all_types_of_an_architecture_are_found() {
    let folder = Folder::delayed(Preset::Fast);
    let of = async |archs: &[Arch]| {
        let types = folder
            .ec2
            .instance_types_for(Market::Spot, archs, false)
            .await;
        types.unwrap()
    };
    let arm = of(&[Arch::Arm64]).await;
    let both = of(&Arch::ALL).await;
    assert!(arm.iter().all(|kind| kind.arch == Arch::Arm64), "{arm:?}");
    assert!(!arm.is_empty() && arm.len() < both.len());
}

#[tokio::test(start_paused = true)]
async fn every_zone_where_a_type_is_sold_has_a_price_of_its_own() {
    let folder = Folder::delayed(Preset::Fast);
    let names = owned(&["t3.medium", "m7g.large", "t3.nothing"]);
    let mut prices = folder.ec2.spot_prices(&names).await.unwrap();
    assert_eq!(prices.len(), 6, "{prices:?}");
    prices.retain(|found| found.instance_type == "t3.medium");
    prices.sort_by_key(|found| found.price);
    let zones: Vec<&Zone> = prices.iter().map(|found| &found.zone).collect();
    let expected = ["a", "b", "c"].map(|letter| Zone(format!("us-east-1{letter}")));
    assert_eq!(zones, expected.each_ref());
    assert_eq!(prices[0].price.to_string(), "$0.01248");
}
