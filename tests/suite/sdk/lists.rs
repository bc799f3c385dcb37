//! Describe calls: whose resources they return, all of them, and as they are.

use xdrive::ec2::{Volume, Zone};
use xdrive::local::Preset;
use xdrive::local::wire::Params;

use super::{DRIVE, ZONE, drive, launch_order, tags, volume_order};
use crate::folder::Folder;

#[tokio::test(start_paused = true)]
async fn the_owner_is_the_caller() {
    let folder = Folder::delayed(Preset::Fast);
    let owner = folder.ec2.owner().await.unwrap();
    assert!(owner.starts_with("arn:aws:iam::"), "{owner}");
}

#[tokio::test(start_paused = true)]
async fn a_drive_sees_its_own_and_a_list_sees_all_that_is_tagged() {
    let folder = Folder::delayed(Preset::Fast);
    let mut other = volume_order("other");
    other
        .tags
        .insert("xdrive:drive".to_owned(), "other".to_owned());
    let mut foreign = volume_order("foreign");
    foreign.tags.clear();
    for order in [volume_order("own"), other, foreign] {
        folder.ec2.create_volume(&order).await.unwrap();
    }
    let names = |volumes: Vec<Volume>| -> Vec<String> {
        let mut names: Vec<_> = volumes
            .into_iter()
            .map(|v| v.tags["xdrive:drive"].clone())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(folder.ec2.volumes(&drive()).await.unwrap()), [DRIVE]);
    assert_eq!(
        names(folder.ec2.volumes(&"other".parse().unwrap()).await.unwrap()),
        ["other"]
    );
    assert_eq!(
        folder.ec2.volumes(&"othe".parse().unwrap()).await.unwrap(),
        []
    );
    let (instances, volumes, snapshots) = folder.ec2.everything().await.unwrap();
    assert_eq!(names(volumes), [DRIVE, "other"]);
    assert!(instances.is_empty() && snapshots.is_empty());
}

#[tokio::test(start_paused = true)]
async fn tags_come_back_as_they_were_given() {
    let folder = Folder::delayed(Preset::Fast);
    let mut order = volume_order("odd");
    let odd = "<a href=\"x\">&amp; 'q' \\ * ? + % \t\r\n äöü 🦀 =&";
    order.tags.insert("odd".to_owned(), odd.to_owned());
    let made = folder.ec2.create_volume(&order).await.unwrap();
    assert_eq!(made.tags, order.tags);
    let more = tags(&[("odd", "now <this>")]);
    folder.ec2.tag(made.id.as_str(), &more).await.unwrap();
    let seen = folder.ec2.volume(&made.id).await.unwrap().unwrap();
    assert_eq!(seen.tags["odd"], "now <this>");
    assert_eq!(seen.tags.len(), made.tags.len());
}

#[tokio::test(start_paused = true)]
async fn every_page_of_a_list_is_read() {
    let folder = Folder::delayed(Preset::Fast);
    let mut order: Vec<(String, String)> = vec![
        ("ImageId".into(), launch_order("").image),
        ("InstanceType".into(), "t3.micro".into()),
        ("MinCount".into(), "20".into()),
        ("MaxCount".into(), "20".into()),
    ];
    for (number, kind) in [(1, "instance"), (2, "volume")] {
        let prefix = format!("TagSpecification.{number}");
        order.push((format!("{prefix}.ResourceType"), kind.into()));
        order.push((format!("{prefix}.Tag.1.Key"), "xdrive:drive".into()));
        order.push((format!("{prefix}.Tag.1.Value"), DRIVE.into()));
    }
    let order = Params::new(order);
    for _ in 0..26 {
        folder.local.call("RunInstances", &order).unwrap();
    }
    assert_eq!(folder.ec2.instances(&drive()).await.unwrap().len(), 520);
    assert_eq!(folder.connector.calls(), ["DescribeInstances"; 2]);
    assert_eq!(folder.ec2.volumes(&drive()).await.unwrap().len(), 520);
    assert_eq!(folder.connector.calls(), ["DescribeVolumes"; 2]);
}

#[tokio::test(start_paused = true)]
async fn spot_has_a_price_where_the_type_is_sold() {
    let folder = Folder::delayed(Preset::Fast);
    let zone = Zone(ZONE.to_owned());
    let price = folder.ec2.spot_price("t3.medium", &zone).await.unwrap();
    assert!(
        price.is_some_and(|price| price > 0.0 && price < 1.0),
        "{price:?}"
    );
    assert_eq!(
        folder.ec2.spot_price("t3.nothing", &zone).await.unwrap(),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_console_can_be_read() {
    let folder = Folder::delayed(Preset::Fast);
    let launched = folder.ec2.launch(&launch_order("console")).await.unwrap();
    let console = folder.ec2.console(&launched.id).await.unwrap();
    assert_eq!(console, "", "paper has nothing to say");
}
